/* An interposed library (LD_PRELOAD) that gives a program another system to run on. INTERPOSED names the kinds, apart by
 * commas:
 *
 *   no-locks      fcntl and flock say that there are no locks (ENOLCK), as on some shared file systems
 *   no-links      link says that it may not (EPERM), as on FAT and many FUSE file systems
 *   no-flags      renameat2 knows no flags (EINVAL), as before Linux 3.15 and on NFS
 *   silly         a file that is removed while this process has it open stays as .nfs..., as on NFS, until it is closed
 *   slow-sync:S   fsync and fdatasync take S seconds
 *   stale         the working folder cannot be looked at (ESTALE), as on NFS when it has gone
 *   threads:N     threads from the N-th on cannot be started (EAGAIN)
 *   io:CALL       CALL (pread, fsync) fails with EIO on files whose name holds INTERPOSED_NAME
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

/* What follows KIND in INTERPOSED, "" where nothing does; NULL: it is not asked for. */
static const char* kind(const char* name) {
  const char* all = getenv("INTERPOSED");
  const size_t length = strlen(name);
  for (const char* at = all; at != NULL && *at != '\0'; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
    if (strncmp(at, name, length) == 0 && strchr(":,", at[length]) != NULL) return at[length] == ':' ? at + length + 1 : "";
  return NULL;
}
#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
#define REFUSE(number) return errno = (number), -1

static int is_named(int file) {
  const char* wanted = getenv("INTERPOSED_NAME");
  char link[64], path[4096];
  snprintf(link, sizeof link, "/proc/self/fd/%d", file);
  const ssize_t n = readlink(link, path, sizeof path - 1);
  if (wanted == NULL || n < 0) return 0;
  path[n] = '\0';
  return strstr(path, wanted) != NULL;
}

static int is_lock(int command) {
  return command == F_SETLK || command == F_SETLKW || command == F_GETLK || command == F_OFD_SETLK ||
         command == F_OFD_SETLKW || command == F_OFD_GETLK;
}
#define FCNTL(name)                                                              \
  int name(int file, int command, ...) {                                         \
    va_list list;                                                                \
    va_start(list, command);                                                     \
    void* argument = va_arg(list, void*);                                        \
    va_end(list);                                                                \
    if (is_lock(command) && kind("no-locks")) REFUSE(ENOLCK);                    \
    return ((int (*)(int, int, ...))dlsym(RTLD_NEXT, #name))(file, command, argument); \
  }
FCNTL(fcntl)
FCNTL(fcntl64)
int flock(int file, int operation) {
  if (kind("no-locks")) REFUSE(ENOLCK);
  return NEXT(flock)(file, operation);
}
int link(const char* from, const char* to) {
  if (kind("no-links")) REFUSE(EPERM);
  return NEXT(link)(from, to);
}
int renameat2(int from_folder, const char* from, int to_folder, const char* to, unsigned flags) {
  if (flags != 0 && kind("no-flags")) REFUSE(EINVAL);
  return NEXT(renameat2)(from_folder, from, to_folder, to, flags);
}

/* The other names of files that are open here and were removed. */
static char kept[256][4096];
static ino_t kept_of[256];
static int silly(int folder, const char* path) {
  struct stat info, open_file;
  if (!kind("silly") || fstatat(folder, path, &info, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(info.st_mode)) return 0;
  for (int file = 3; file < 256; ++file) {
    if (fstat(file, &open_file) != 0 || open_file.st_ino != info.st_ino || open_file.st_dev != info.st_dev) continue;
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    const ssize_t n = readlink(link, kept[file], sizeof kept[file] - 64);
    if (n < 0) return 0;
    kept[file][n] = '\0';
    char* name = strrchr(kept[file], '/');
    if (name == NULL || strncmp(name + 1, ".nfs", 4) == 0) return 0;
    sprintf(name + 1, ".nfs%016lx", (unsigned long)info.st_ino);
    kept_of[file] = info.st_ino;
    return NEXT(renameat)(folder, path, AT_FDCWD, kept[file]) == 0 ? 1 : -1;
  }
  return 0;
}
int unlink(const char* path) {
  const int moved = silly(AT_FDCWD, path);
  return moved != 0 ? moved - (moved > 0) : NEXT(unlink)(path);
}
int unlinkat(int folder, const char* path, int flags) {
  const int moved = (flags & AT_REMOVEDIR) == 0 ? silly(folder, path) : 0;
  return moved != 0 ? moved - (moved > 0) : NEXT(unlinkat)(folder, path, flags);
}
int close(int file) {
  struct stat info;
  char gone[4096] = "";
  if (file >= 3 && file < 256 && kept_of[file] != 0 && fstat(file, &info) == 0 && info.st_ino == kept_of[file]) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    const ssize_t n = readlink(link, gone, sizeof gone - 1);
    gone[n < 0 ? 0 : n] = '\0';
    kept_of[file] = 0;
  }
  const int result = NEXT(close)(file);
  if (gone[0] != '\0') NEXT(unlink)(gone);
  return result;
}

int lstat(const char* path, struct stat* out) {
  if (strcmp(path, ".") == 0 && kind("stale")) REFUSE(ESTALE);
  return NEXT(lstat)(path, out);
}

static void sync_slowly(void) {
  const char* seconds = kind("slow-sync");
  if (seconds != NULL) usleep((useconds_t)(1e6 * atof(seconds)));
}
int fsync(int file) {
  const char* call = kind("io");
  if (call != NULL && strncmp(call, "fsync", 5) == 0 && is_named(file)) REFUSE(EIO);
  sync_slowly();
  return NEXT(fsync)(file);
}
int fdatasync(int file) {
  sync_slowly();
  return NEXT(fdatasync)(file);
}
ssize_t pread64(int file, void* to, size_t bytes, off_t offset) {
  const char* call = kind("io");
  if (call != NULL && strncmp(call, "pread", 5) == 0 && is_named(file)) REFUSE(EIO);
  return ((ssize_t(*)(int, void*, size_t, off_t))dlsym(RTLD_NEXT, "pread64"))(file, to, bytes, offset);
}
ssize_t pread(int file, void* to, size_t bytes, off_t offset) { return pread64(file, to, bytes, offset); }

int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*work)(void*), void* argument) {
  static int started = 0;
  const char* most = kind("threads");
  if (most != NULL && __atomic_add_fetch(&started, 1, __ATOMIC_RELAXED) >= atoi(most)) return EAGAIN;
  return NEXT(pthread_create)(thread, attributes, work, argument);
}
