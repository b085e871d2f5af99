// STARLING_WIDE: a function of one loop over floats, compiled for several processors; the widest that fits is
// chosen at the program's start (not under a sanitizer, whose runtime is not ready when that choice is made).
// A file that uses it begins with `#pragma GCC optimize("O3")` under the same condition as the macro's first
// branch, so that the loops are vectorized.
#pragma once

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)
#define STARLING_WIDE __attribute__((noinline, target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define STARLING_WIDE __attribute__((noinline))
#endif
