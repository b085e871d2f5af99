# shellcheck shell=bash disable=SC2154
# Part of scripts/gpu-check: configures and builds the programs, if needed with libraries of a prefix and with parts of CUDA from
# Python packages.

readonly build_limit=540

# The build targets: test programs with GPU tests, the program, the benchmarks and the back end.
readonly targets=(starling tests-kernels tests-models tests-training tests-node tests-cli train_bench cuda_bench)

# Makes the compiler and CMake find the packages of scripts/prefix. The programs find the libraries by their RPATH.
use_prefix() {
  local usr arch
  usr=$(cd "$prefix" && pwd)/usr
  arch=$(c++ -dumpmachine)
  if [[ ! -d $usr/include ]]; then
    echo "scripts/gpu-check: $usr/include does not exist; create it with scripts/prefix" >&2
    exit 2
  fi
  if [[ -e $usr/include/stdio.h || -e $usr/lib/$arch/libc.so.6 ]]; then
    echo "scripts/gpu-check: $usr contains a C library; use this machine's own" >&2
    exit 2
  fi
  places+=("$usr")
  # Otherwise pkg-config omits paths that it takes for system folders.
  export PKG_CONFIG_SYSROOT_DIR=${usr%/usr} PKG_CONFIG_LIBDIR=$usr/lib/$arch/pkgconfig:$usr/share/pkgconfig
  export PKG_CONFIG_ALLOW_SYSTEM_CFLAGS=1 PKG_CONFIG_ALLOW_SYSTEM_LIBS=1
  export CPLUS_INCLUDE_PATH=$usr/include:$usr/include/$arch${CPLUS_INCLUDE_PATH:+:$CPLUS_INCLUDE_PATH}
  export LIBRARY_PATH=$usr/lib/$arch${LIBRARY_PATH:+:$LIBRARY_PATH}
  command -v pkg-config >/dev/null || export PATH=$PATH:$usr/bin
  # For flatc and the linker. DT_RPATH, unlike DT_RUNPATH, also applies to indirect libraries.
  library_path=$usr/lib/$arch
  options+=("-DCMAKE_BUILD_RPATH=$library_path" "-DCMAKE_LIBRARY_PATH=$library_path")
  options+=("-DCMAKE_EXE_LINKER_FLAGS=-Wl,--disable-new-dtags" "-DCMAKE_MODULE_LINKER_FLAGS=-Wl,--disable-new-dtags")
}

# A toolkit-like folder with the cuDNN and cuBLAS libraries that the toolkit lacks, from PyTorch's packages, which have no
# names for the linker.
use_python_packages() {
  local nvcc toolkit roots library header folder file name
  nvcc=$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)
  toolkit=$(dirname "$(dirname "$(readlink -f "$nvcc")")")
  roots=$("$python" -c 'import nvidia; print(*nvidia.__path__)' 2>/dev/null) || return 0
  folder=$build/cuda-parts
  for library in cudnn cublas; do
    header=$library.h
    [[ $library == cublas ]] && header=cublas_v2.h
    if [[ -n $(find -L "$toolkit" /usr/include -maxdepth 4 -name "$header" 2>/dev/null) ]]; then continue; fi
    mkdir -p "$folder/include" "$folder/lib"
    # shellcheck disable=SC2086  # a list
    while read -r file; do ln -sf "$file" "$folder/include/"; done < <(find -L $roots -name "$library*.h")
    # shellcheck disable=SC2086
    while read -r file; do
      name=${file##*/}
      ln -sf "$file" "$folder/lib/$name"
      ln -sf "$file" "$folder/lib/${name%%.so*}.so"
    done < <(find -L $roots -name "lib$library*.so*")
    echo "using $library from $python's packages"
  done
  if [[ -d $folder ]]; then places+=("$(cd "$folder" && pwd)"); fi
}

build_all() {
  local begun=$SECONDS library_path='' places=() options=() generator=() list=("${targets[@]}") jobs status=0
  jobs=${STARLING_JOBS:-$(nproc)}
  renew "$build"
  if [[ ! -e $build/CMakeCache.txt ]] && command -v ninja >/dev/null; then generator=(-G Ninja); fi
  use_python_packages
  if [[ -n $prefix ]]; then use_prefix; fi
  if ((${#places[@]} > 0)); then options+=("-DCMAKE_PREFIX_PATH=$(IFS=';' && echo "${places[*]}")"); fi
  if [[ $emulated == yes ]]; then
    list+=(starling_cuda_emulated)
  else
    list+=(starling_cuda)
    options+=(-DSTARLING_CUDA=ON)
  fi
  # Newer CMake versions reject the old minimum versions of some libraries, and newer compilers have new warnings. An existing
  # build folder already has its settings; changing them would rebuild everything.
  if [[ ! -e $build/CMakeCache.txt ]]; then options+=(-DCMAKE_POLICY_VERSION_MINIMUM=3.5 -DSTARLING_WARNINGS=OFF); fi
  echo "building in $build"
  {
    cmake -S . -B "$build" "${generator[@]}" -DCMAKE_BUILD_TYPE=Release -DSTARLING_BENCH=ON "${options[@]}" &&
      LD_LIBRARY_PATH=$library_path${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} timeout --kill-after=10 "$build_limit" \
        cmake --build "$build" -j "$jobs" --target "${list[@]}"
  } >>"$out/log.txt" 2>&1 || status=$?
  if ((status == 124 || status == 137)); then
    tail -n 1 "$out/log.txt" >&2
    echo "scripts/gpu-check: the build took more than $build_limit s; run it again to continue" >&2
    exit 1
  elif ((status != 0)); then
    grep -m 20 -E '(error|Error|FAILED)' "$out/log.txt" >&2 || true
    tail -n 40 "$out/log.txt" >&2
    echo "scripts/gpu-check: the build failed; see $out/log.txt" >&2
    exit 1
  fi
  echo "built, $((SECONDS - begun)) s"
}
