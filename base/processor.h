// STARLING_FOR_PROCESSORS before a small function with a loop compiles it for several instruction sets; the
// program chooses the widest that its processor has. With a sanitizer, whose runtime is not ready at the time
// of this choice, or with another compiler than GCC, the function is compiled once. A file whose loops are
// critical begins with `#pragma GCC optimize("O3")`, if GCC compiles it, to vectorize them in every build.
#pragma once

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)
#define STARLING_FOR_PROCESSORS \
  __attribute__((noinline, target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define STARLING_FOR_PROCESSORS __attribute__((noinline))
#endif
