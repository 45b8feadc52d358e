/* An interposed library (LD_PRELOAD) that gives a program failing devices and file servers, and other processes that
 * change files meanwhile.
 *
 * FAILING        "CALL:ERROR", several of them separated by commas: CALL (open, read, pread, write, pwrite, fsync, stat,
 *                lock, unlink, getcwd) fails with this error number each time, on files whose path contains
 *                FAILING_NAME; "CALL:ERROR:N" fails the first N times only
 * MEANWHILE      a shell command, run before a file whose path contains MEANWHILE_NAME is opened for the first time
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static int holds(const char* text, const char* variable) {
  const char* part = getenv(variable);
  return part != NULL && text != NULL && strstr(text, part) != NULL;
}

/* The error number that `call` gives for a path or for an open file; 0: no error. */
static int error_of(const char* call, const char* path, int file) {
  static int times = 0;
  const size_t length = strlen(call);
  for (const char* at = getenv("FAILING"); at != NULL && *at != '\0'; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
    if (strncmp(at, call, length) != 0 || at[length] != ':') continue;
    char link[64], name[4096];
    if (path == NULL) {
      snprintf(link, sizeof link, "/proc/self/fd/%d", file);
      const ssize_t n = readlink(link, name, sizeof name - 1);
      if (n < 0) return 0;
      name[n] = '\0', path = name;
    }
    if (!holds(path, "FAILING_NAME")) return 0;
    char* rest;
    const int number = (int)strtol(at + length + 1, &rest, 10);
    return *rest == ':' && __atomic_fetch_add(&times, 1, __ATOMIC_SEQ_CST) >= atoi(rest + 1) ? 0 : number;
  }
  return 0;
}
#define FAIL(call, path, file)                          \
  do {                                                  \
    const int number = error_of(call, path, file);      \
    if (number != 0) return errno = number, -1;         \
  } while (0)

static void others_work(const char* path) {
  static int done = 0;
  const char* command = getenv("MEANWHILE");
  if (command == NULL || !holds(path, "MEANWHILE_NAME") || __atomic_exchange_n(&done, 1, __ATOMIC_SEQ_CST)) return;
  char line[8192];
  snprintf(line, sizeof line, "unset LD_PRELOAD MEANWHILE FAILING; %s", command);
  if (system(line) != 0) abort();
}

#define OPEN(name)                                                                       \
  int name(const char* path, int flags, ...) {                                           \
    va_list list;                                                                        \
    va_start(list, flags);                                                               \
    const mode_t mode = (flags & (O_CREAT | O_TMPFILE)) ? va_arg(list, mode_t) : 0;      \
    va_end(list);                                                                        \
    others_work(path);                                                                   \
    FAIL("open", path, -1);                                                              \
    return ((int (*)(const char*, int, ...))dlsym(RTLD_NEXT, #name))(path, flags, mode); \
  }
OPEN(open)
OPEN(open64)

int stat(const char* path, struct stat* out) {
  FAIL("stat", path, -1);
  return NEXT(stat)(path, out);
}
int lstat(const char* path, struct stat* out) {
  FAIL("stat", path, -1);
  return NEXT(lstat)(path, out);
}

char* getcwd(char* to, size_t bytes) {
  const int number = error_of("getcwd", "/", -1);
  return number != 0 ? (errno = number, NULL) : NEXT(getcwd)(to, bytes);
}
int unlink(const char* path) {
  FAIL("unlink", path, -1);
  return NEXT(unlink)(path);
}
int unlinkat(int folder, const char* path, int flags) {
  FAIL("unlink", path, -1);
  return NEXT(unlinkat)(folder, path, flags);
}

ssize_t read(int file, void* to, size_t bytes) {
  FAIL("read", NULL, file);
  return NEXT(read)(file, to, bytes);
}
ssize_t write(int file, const void* from, size_t bytes) {
  FAIL("write", NULL, file);
  return NEXT(write)(file, from, bytes);
}
#define AT(name, call, type)                                                                                   \
  ssize_t name(int file, type data, size_t bytes, off_t offset) {                                              \
    FAIL(call, NULL, file);                                                                                    \
    return ((ssize_t(*)(int, type, size_t, off_t))dlsym(RTLD_NEXT, #name))(file, data, bytes, offset);         \
  }
AT(pread, "pread", void*)
AT(pread64, "pread", void*)
AT(pwrite, "pwrite", const void*)
AT(pwrite64, "pwrite", const void*)
int fsync(int file) {
  FAIL("fsync", NULL, file);
  return NEXT(fsync)(file);
}

#define FCNTL(name)                                                                                                            \
  int name(int file, int command, ...) {                                                                                       \
    va_list list;                                                                                                              \
    va_start(list, command);                                                                                                   \
    void* argument = va_arg(list, void*);                                                                                      \
    va_end(list);                                                                                                              \
    if (command == F_SETLK || command == F_SETLKW || command == F_OFD_SETLK || command == F_OFD_SETLKW) FAIL("lock", NULL, file); \
    return ((int (*)(int, int, ...))dlsym(RTLD_NEXT, #name))(file, command, argument);                                         \
  }
FCNTL(fcntl)
FCNTL(fcntl64)
