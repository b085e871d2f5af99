// STARLING_FOR_PROCESSORS before a function of a loop or two compiles it several times, and the program picks
// the widest that its processor runs. Not under a sanitizer, whose runtime is not ready when that choice is
// made, nor where the compiler cannot. A file whose loops matter begins with `#pragma GCC optimize("O3")`
// under the condition that a GCC compiles it, so that they are vectorized in every build.
#pragma once

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)
#define STARLING_FOR_PROCESSORS \
  __attribute__((noinline, target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define STARLING_FOR_PROCESSORS __attribute__((noinline))
#endif
