#include <dlfcn.h>

#include "kernels/cuda/nccl.h"

namespace starling::kernels::cuda {
namespace {

template <class Function>
bool find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  return function != nullptr;
}

const Nccl* load() {
  void* const library = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return nullptr;
  static Nccl found;
  const bool whole =
      find(library, "ncclGetVersion", found.version) && find(library, "ncclCommInitAll", found.make) &&
      find(library, "ncclCommDestroy", found.destroy) && find(library, "ncclCommAbort", found.abort) &&
      find(library, "ncclGroupStart", found.begin_group) && find(library, "ncclGroupEnd", found.end_group) &&
      find(library, "ncclAllReduce", found.all_reduce) && find(library, "ncclGetErrorString", found.word);
  return whole ? &found : nullptr;
}

}  // namespace

const Nccl* nccl() {
  static const Nccl* const library = load();
  return library;
}

}  // namespace starling::kernels::cuda
