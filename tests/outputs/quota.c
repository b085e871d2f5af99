// A disk quota for tests, to be preloaded: below the folder QUOTA_FOLDER, the call QUOTA_CALL fails with
// EDQUOT. That is write, once QUOTA_BYTES are written by the process, or open (of a new file), fsync, close
// (as NFS does) or rename.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

static atomic_long written;

static int fails(const char* call) {
  const char* chosen = getenv("QUOTA_CALL");
  return chosen != NULL && strcmp(chosen, call) == 0;
}

static int is_below(const char* path) {
  const char* folder = getenv("QUOTA_FOLDER");
  char whole[2 * PATH_MAX];
  if (folder == NULL) return 0;
  if (path[0] == '/') {
    snprintf(whole, sizeof whole, "%s", path);
  } else {
    char here[PATH_MAX];
    if (getcwd(here, sizeof here) == NULL) return 0;
    snprintf(whole, sizeof whole, "%s/%s", here, path);
  }
  return strncmp(whole, folder, strlen(folder)) == 0;
}

// Whether the descriptor is a file below the folder that is open for writing.
static int is_output(int fd) {
  char link[64], path[PATH_MAX];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  const ssize_t length = readlink(link, path, sizeof path - 1);
  if (length < 0 || (fcntl(fd, F_GETFL) & O_ACCMODE) == O_RDONLY) return 0;
  path[length] = 0;
  return is_below(path);
}

static int refuse(void) {
  errno = EDQUOT;
  return -1;
}

#define NEXT(name) __typeof__(name)* const name##_next = (__typeof__(name)*)dlsym(RTLD_NEXT, #name)

// How many of `bytes` may be written.
static size_t granted(int fd, size_t bytes) {
  if (!fails("write") || !is_output(fd)) return bytes;
  const long left = atol(getenv("QUOTA_BYTES")) - atomic_fetch_add(&written, (long)bytes);
  return left <= 0 ? 0 : (size_t)left < bytes ? (size_t)left : bytes;
}

ssize_t write(int fd, const void* data, size_t bytes) {
  NEXT(write);
  const size_t some = granted(fd, bytes);
  return some == 0 && bytes > 0 ? refuse() : write_next(fd, data, some);
}

ssize_t writev(int fd, const struct iovec* parts, int count) {
  NEXT(writev);
  size_t bytes = 0;
  for (int i = 0; i < count; ++i) bytes += parts[i].iov_len;
  return granted(fd, bytes) < bytes ? refuse() : writev_next(fd, parts, count);
}

ssize_t pwrite64(int fd, const void* data, size_t bytes, off64_t at) {
  NEXT(pwrite64);
  const size_t some = granted(fd, bytes);
  return some == 0 && bytes > 0 ? refuse() : pwrite64_next(fd, data, some, at);
}

int fsync(int fd) {
  NEXT(fsync);
  return fails("fsync") && is_output(fd) ? refuse() : fsync_next(fd);
}

int close(int fd) {
  NEXT(close);
  const int fail = fails("close") && is_output(fd);
  const int closed = close_next(fd);
  return fail ? refuse() : closed;
}

int rename(const char* from, const char* to) {
  NEXT(rename);
  return fails("rename") && is_below(to) ? refuse() : rename_next(from, to);
}

static int open_file(const char* name, const char* path, int flags, mode_t mode) {
  int (*next)(const char*, int, ...) = (int (*)(const char*, int, ...))dlsym(RTLD_NEXT, name);
  struct stat status;
  if (fails("open") && (flags & O_CREAT) != 0 && is_below(path) && stat(path, &status) != 0) return refuse();
  return next(path, flags, mode);
}

static mode_t mode_of(int flags, va_list rest) { return (flags & O_CREAT) != 0 ? va_arg(rest, mode_t) : 0; }

int open(const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = mode_of(flags, rest);
  va_end(rest);
  return open_file("open", path, flags, mode);
}

int open64(const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = mode_of(flags, rest);
  va_end(rest);
  return open_file("open64", path, flags, mode);
}

int mkostemp64(char* path, int flags) {
  NEXT(mkostemp64);
  return fails("open") && is_below(path) ? refuse() : mkostemp64_next(path, flags);
}

int mkostemp(char* path, int flags) {
  NEXT(mkostemp);
  return fails("open") && is_below(path) ? refuse() : mkostemp_next(path, flags);
}
