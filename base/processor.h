// STARLING_FOR_PROCESSORS before a small function with a loop compiles it for several instruction sets; the
// program chooses the widest that its processor has. It compiles the function once with a sanitizer, whose
// runtime is not ready at the time of this choice, and if the compiler does not support this. A file whose
// loops are critical begins with `#pragma GCC optimize("O3")`, if GCC compiles it, to vectorize them in every
// build.
#pragma once

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)
#define STARLING_FOR_PROCESSORS \
  __attribute__((noinline, target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define STARLING_FOR_PROCESSORS __attribute__((noinline))
#endif
