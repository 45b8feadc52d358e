/* Recorder: an interposed library that records what a program does to names and files below a folder. It can also make
 * the file system worse than it is.
 *
 * RECORD_ROOT            the folder
 * RECORD_LOG             the file for the lines "OPERATION PATH [PATH]"; the operations are open, write, sync, rename,
 *                        exchange, mkdir and remove
 * RECORD_NO_EXCHANGE=1   renameat2 refuses RENAME_EXCHANGE
 * RECORD_DIE_AFTER=N     the process is killed after its Nth rename below the folder
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

static void record(const char* operation, const char* a, const char* b) {
  const char *root = getenv("RECORD_ROOT"), *log = getenv("RECORD_LOG");
  if (root == NULL || log == NULL || strncmp(a, root, strlen(root)) != 0) return;
  char line[2 * PATH_MAX + 32];
  const int n = snprintf(line, sizeof line, "%s %s%s%s\n", operation, a, b == NULL ? "" : " ", b == NULL ? "" : b);
  const int before = errno;
  const long fd = syscall(SYS_openat, AT_FDCWD, log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (fd >= 0) {
    syscall(SYS_write, fd, line, (size_t)n);
    syscall(SYS_close, fd);
  }
  errno = before;
}

static void record_file(const char* operation, int fd) {
  char link[64], path[PATH_MAX];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  const ssize_t n = readlink(link, path, sizeof path - 1);
  if (n <= 0) return;
  path[n] = '\0';
  record(operation, path, NULL);
}

static void renamed(const char* operation, const char* from, const char* to) {
  static int renames = 0;
  const char *root = getenv("RECORD_ROOT"), *last = getenv("RECORD_DIE_AFTER");
  record(operation, from, to);
  if (root == NULL || last == NULL || strncmp(from, root, strlen(root)) != 0) return;
  if (++renames == atoi(last)) kill(getpid(), SIGKILL);
}

#define NEXT(type, name) ((type)dlsym(RTLD_NEXT, name))

#define OPEN(name)                                                                   \
  int name(const char* path, int flags, ...) {                                       \
    va_list rest;                                                                    \
    va_start(rest, flags);                                                           \
    const mode_t mode = (flags & (O_CREAT | O_TMPFILE)) ? va_arg(rest, mode_t) : 0;  \
    va_end(rest);                                                                    \
    const int fd = NEXT(int (*)(const char*, int, ...), #name)(path, flags, mode);   \
    if (fd >= 0 && (flags & O_CREAT)) record_file("open", fd);                       \
    return fd;                                                                       \
  }
OPEN(open)
OPEN(open64)

ssize_t write(int fd, const void* data, size_t bytes) {
  const ssize_t n = NEXT(ssize_t (*)(int, const void*, size_t), "write")(fd, data, bytes);
  if (n > 0) record_file("write", fd);
  return n;
}
ssize_t writev(int fd, const struct iovec* parts, int count) {
  const ssize_t n = NEXT(ssize_t (*)(int, const struct iovec*, int), "writev")(fd, parts, count);
  if (n > 0) record_file("write", fd);
  return n;
}
#define PWRITE(name, offset)                                                                               \
  ssize_t name(int fd, const void* data, size_t bytes, offset at) {                                        \
    const ssize_t n = NEXT(ssize_t (*)(int, const void*, size_t, offset), #name)(fd, data, bytes, at);     \
    if (n > 0) record_file("write", fd);                                                                   \
    return n;                                                                                              \
  }
PWRITE(pwrite, off_t)
PWRITE(pwrite64, off64_t)
#define TRUNCATE(name, offset)                                     \
  int name(int fd, offset bytes) {                                 \
    const int code = NEXT(int (*)(int, offset), #name)(fd, bytes); \
    if (code == 0) record_file("write", fd);                       \
    return code;                                                   \
  }
TRUNCATE(ftruncate, off_t)
TRUNCATE(ftruncate64, off64_t)

#define SYNC(name)                                  \
  int name(int fd) {                                \
    const int code = NEXT(int (*)(int), #name)(fd); \
    if (code == 0) record_file("sync", fd);         \
    return code;                                    \
  }
SYNC(fsync)
SYNC(fdatasync)

int rename(const char* from, const char* to) {
  const int code = NEXT(int (*)(const char*, const char*), "rename")(from, to);
  if (code == 0) renamed("rename", from, to);
  return code;
}
int renameat2(int from_folder, const char* from, int to_folder, const char* to, unsigned flags) {
  if ((flags & RENAME_EXCHANGE) && getenv("RECORD_NO_EXCHANGE") != NULL) {
    errno = EINVAL;
    return -1;
  }
  const int code = NEXT(int (*)(int, const char*, int, const char*, unsigned), "renameat2")(from_folder, from, to_folder, to, flags);
  if (code == 0) renamed((flags & RENAME_EXCHANGE) ? "exchange" : "rename", from, to);
  return code;
}

int mkdir(const char* path, mode_t mode) {
  const int code = NEXT(int (*)(const char*, mode_t), "mkdir")(path, mode);
  if (code == 0) record("mkdir", path, NULL);
  return code;
}
#define REMOVE(name)                                           \
  int name(const char* path) {                                 \
    const int code = NEXT(int (*)(const char*), #name)(path);  \
    if (code == 0) record("remove", path, NULL);               \
    return code;                                               \
  }
REMOVE(unlink)
REMOVE(remove)
REMOVE(rmdir)
int unlinkat(int folder, const char* name, int flags) {
  char path[2 * PATH_MAX], link[64], above[PATH_MAX] = "";
  snprintf(link, sizeof link, "/proc/self/fd/%d", folder);
  const ssize_t n = folder == AT_FDCWD ? -1 : readlink(link, above, sizeof above - 1);
  if (n > 0) above[n] = '\0';
  snprintf(path, sizeof path, "%s%s%s", n > 0 ? above : "", n > 0 ? "/" : "", name);
  const int code = NEXT(int (*)(int, const char*, int), "unlinkat")(folder, name, flags);
  if (code == 0) record("remove", path, NULL);
  return code;
}
