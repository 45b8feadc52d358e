/* An interposed library (LD_PRELOAD) that gives a program another system to run on. INTERPOSED names the kinds, separated
 * by commas:
 *
 *   no-locks      fcntl and flock report that there are no locks (ENOLCK), as on some shared file systems
 *   no-links      link is not permitted (EPERM), as on FAT and many FUSE file systems
 *   no-flags      renameat2 supports no flags (EINVAL), as before Linux 3.15 and on NFS
 *   silly         a removed file that this process has open stays as .nfs... until it is closed, as on NFS; removing it
 *                 again gives EBUSY
 *   slow-sync:S   fsync and fdatasync take S seconds
 *   stale         the working folder cannot be read (ESTALE), as on NFS when it is gone
 *   threads:N     threads from the N-th on cannot be started (EAGAIN)
 *   io:CALL       CALL (pread, pwrite, fsync) fails with EIO on files whose name contains INTERPOSED_NAME
 *   flip:N        the N-th read of a file whose name contains INTERPOSED_NAME has another bit at its beginning
 *   no-room       space cannot be reserved (ENOSPC)
 *   no-uring      there is no io_uring (ENOSYS), as in many containers
 *   no-direct     files cannot be read and written directly (EINVAL), as on some file systems of user space
 *   no-reserve    space cannot be reserved (EOPNOTSUPP), as on NFS before 4.2
 *   no-nameless   a file needs a name (EOPNOTSUPP), as on NFS
 *   short         a write or read of more than one byte transfers half of them, as when a signal or a quota stops it; of
 *                 direct files, of more than one block of 4096 bytes
 *   full:BYTES    after so many bytes this process can write nothing more to files (ENOSPC)
 *   memory:BYTES  C++ code can hold at most so many bytes at once
 *   moment:N      only the N-th allocation of C++ code is refused
 *   clock:S       the time of day jumps by S seconds, back and forth, at each call; monotonic time does not change
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* The text after KIND: in INTERPOSED, or "" if there is none; NULL: INTERPOSED does not name this kind. */
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
    if (command == F_SETFL && ((long)argument & O_DIRECT) != 0 && kind("no-direct")) REFUSE(EINVAL); \
    return ((int (*)(int, int, ...))dlsym(RTLD_NEXT, #name))(file, command, argument); \
  }
FCNTL(fcntl)
FCNTL(fcntl64)
#define OPEN(name)                                                               \
  int name(const char* path, int flags, ...) {                                   \
    va_list list;                                                                \
    va_start(list, flags);                                                       \
    const mode_t mode = (flags & (O_CREAT | __O_TMPFILE)) != 0 ? va_arg(list, mode_t) : 0; \
    va_end(list);                                                                \
    if ((flags & O_TMPFILE) == O_TMPFILE && kind("no-nameless")) REFUSE(EOPNOTSUPP); \
    return ((int (*)(const char*, int, ...))dlsym(RTLD_NEXT, #name))(path, flags, mode); \
  }
OPEN(open)
OPEN(open64)
int fallocate64(int file, int mode, off64_t offset, off64_t bytes) {
  if (kind("no-reserve")) REFUSE(EOPNOTSUPP);
  if (kind("no-room")) REFUSE(ENOSPC);
  return NEXT(fallocate64)(file, mode, offset, bytes);
}
int io_uring_queue_init(unsigned entries, void* ring, unsigned flags) {
  if (kind("no-uring")) return -ENOSYS;
  return ((int (*)(unsigned, void*, unsigned))dlsym(RTLD_NEXT, "io_uring_queue_init"))(entries, ring, flags);
}
int fallocate(int file, int mode, off_t offset, off_t bytes) { return fallocate64(file, mode, offset, bytes); }
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

/* The .nfs names of files that were removed while open here. */
static char kept[256][4096];
static ino_t kept_of[256];
static int silly(int folder, const char* path) {
  struct stat info, open_file;
  if (!kind("silly") || fstatat(folder, path, &info, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(info.st_mode)) return 0;
  for (int file = 3; file < 256; ++file) {
    if (fstat(file, &open_file) != 0 || open_file.st_ino != info.st_ino || open_file.st_dev != info.st_dev) continue;
    char link[64];
    const char* own = strrchr(path, '/');
    if (strncmp(own == NULL ? path : own + 1, ".nfs", 4) == 0) REFUSE(EBUSY);
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
static int is_direct(int file) {
  const int flags = ((int (*)(int, int, ...))dlsym(RTLD_NEXT, "fcntl"))(file, F_GETFL);
  return flags >= 0 && (flags & O_DIRECT) != 0;
}
static size_t half_of_blocks(size_t bytes) { return bytes > 4096 ? bytes / 2 / 4096 * 4096 : bytes; }

ssize_t pread64(int file, void* to, size_t bytes, off_t offset) {
  const char* call = kind("io");
  if (call != NULL && strncmp(call, "pread", 5) == 0 && is_named(file)) REFUSE(EIO);
  if (kind("short") && is_direct(file)) bytes = half_of_blocks(bytes);
  const ssize_t n = ((ssize_t(*)(int, void*, size_t, off_t))dlsym(RTLD_NEXT, "pread64"))(file, to, bytes, offset);
  static int reads = 0;
  const char* flipped = kind("flip");
  if (flipped != NULL && n > 0 && is_named(file) && __atomic_add_fetch(&reads, 1, __ATOMIC_RELAXED) == atoi(flipped))
    ((char*)to)[0] ^= 1;
  return n;
}
ssize_t pread(int file, void* to, size_t bytes, off_t offset) { return pread64(file, to, bytes, offset); }

/* Only regular files can be short or full, not pipes and terminals. */
static int is_file(int file) {
  struct stat info;
  return fstat(file, &info) == 0 && S_ISREG(info.st_mode);
}
static long long written = 0;
/* How many bytes of a write are written; -1: none, with errno. */
static ssize_t taken(int file, size_t bytes) {
  const char* most = kind("full");
  const int is_short = kind("short") != NULL;
  if ((most == NULL && !is_short) || !is_file(file)) return (ssize_t)bytes;
  if (is_short && is_direct(file)) bytes = half_of_blocks(bytes);
  else if (is_short && bytes > 1) bytes /= 2;
  if (most != NULL) {
    const long long before = __atomic_fetch_add(&written, (long long)bytes, __ATOMIC_RELAXED), room = atoll(most) - before;
    const long long fits = is_direct(file) ? room / 4096 * 4096 : room;
    if (fits <= 0) REFUSE(ENOSPC);
    if ((long long)bytes > fits) bytes = (size_t)fits;
  }
  return (ssize_t)bytes;
}
static size_t given(int file, size_t bytes) { return kind("short") && bytes > 1 && is_file(file) ? bytes / 2 : bytes; }
ssize_t write(int file, const void* from, size_t bytes) {
  const ssize_t n = taken(file, bytes);
  return n < 0 ? n : NEXT(write)(file, from, (size_t)n);
}
ssize_t pwrite64(int file, const void* from, size_t bytes, off_t offset) {
  const char* call = kind("io");
  if (call != NULL && strncmp(call, "pwrite", 6) == 0 && is_named(file)) REFUSE(EIO);
  const ssize_t n = taken(file, bytes);
  return n < 0 ? n : ((ssize_t(*)(int, const void*, size_t, off_t))dlsym(RTLD_NEXT, "pwrite64"))(file, from, (size_t)n, offset);
}
ssize_t pwrite(int file, const void* from, size_t bytes, off_t offset) { return pwrite64(file, from, bytes, offset); }
ssize_t read(int file, void* to, size_t bytes) { return NEXT(read)(file, to, given(file, bytes)); }

int clock_gettime(clockid_t clock, struct timespec* out) {
  static int asked = 0;
  const int result = NEXT(clock_gettime)(clock, out);
  const char* jump = kind("clock");
  if (result == 0 && jump != NULL && clock == CLOCK_REALTIME && __atomic_add_fetch(&asked, 1, __ATOMIC_RELAXED) % 2 == 1)
    out->tv_sec += atoll(jump);
  return result;
}

/* Allocations of C++ code, from the start of main on. The loader, constructors of libraries and C libraries are not
 * limited. */
static long long most_bytes = -1, refused_one = -1;  /* below 0: no limit */
static long long bytes_now = 0, allocations = 0;
void _ZSt17__throw_bad_allocv(void);
void (*_ZSt15get_new_handlerv(void))(void);

static int is_refused(size_t bytes) {
  if (refused_one >= 0 && __atomic_add_fetch(&allocations, 1, __ATOMIC_RELAXED) == refused_one) return 1;
  return most_bytes >= 0 && __atomic_load_n(&bytes_now, __ATOMIC_RELAXED) + (long long)bytes > most_bytes;
}
/* Like operator new: the new handler may free memory, or throws. */
static void* allocated(size_t bytes, size_t alignment) {
  for (;;) {
    void* const made = is_refused(bytes) ? NULL : alignment == 0 ? malloc(bytes) : aligned_alloc(alignment, bytes);
    if (made != NULL) {
      if (most_bytes >= 0) __atomic_add_fetch(&bytes_now, (long long)malloc_usable_size(made), __ATOMIC_RELAXED);
      return made;
    }
    void (*handler)(void) = _ZSt15get_new_handlerv();
    if (handler == NULL) _ZSt17__throw_bad_allocv();
    handler();
  }
}
static void freed(void* old) {
  if (old != NULL && most_bytes >= 0) __atomic_sub_fetch(&bytes_now, (long long)malloc_usable_size(old), __ATOMIC_RELAXED);
  free(old);
}
void* _Znwm(size_t bytes) { return allocated(bytes, 0); }
void* _Znam(size_t bytes) { return allocated(bytes, 0); }
void* _ZnwmSt11align_val_t(size_t bytes, size_t alignment) { return allocated((bytes + alignment - 1) / alignment * alignment, alignment); }
void _ZdlPv(void* old) { freed(old); }
void _ZdaPv(void* old) { freed(old); }
void _ZdlPvm(void* old, size_t bytes) { (void)bytes, freed(old); }
void _ZdaPvm(void* old, size_t bytes) { (void)bytes, freed(old); }
void _ZdlPvSt11align_val_t(void* old, size_t alignment) { (void)alignment, freed(old); }
void _ZdlPvmSt11align_val_t(void* old, size_t bytes, size_t alignment) { (void)bytes, (void)alignment, freed(old); }

/* Called by the C library to start main. */
int __libc_start_main(int (*main)(int, char**, char**), int count, char** words, void (*init)(void), void (*fini)(void),
                      void (*loader)(void), void* stack) {
  const char* most = kind("memory");
  const char* one = kind("moment");
  static int (*start)(int (*)(int, char**, char**), int, char**, void (*)(void), void (*)(void), void (*)(void), void*);
  start = (__typeof__(start))dlsym(RTLD_NEXT, "__libc_start_main");
  if (one != NULL) refused_one = atoll(one);
  if (most != NULL) most_bytes = atoll(most);
  return start(main, count, words, init, fini, loader, stack);
}

int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*work)(void*), void* argument) {
  static int started = 0;
  const char* most = kind("threads");
  if (most != NULL && __atomic_add_fetch(&started, 1, __ATOMIC_RELAXED) >= atoi(most)) return EAGAIN;
  return NEXT(pthread_create)(thread, attributes, work, argument);
}
