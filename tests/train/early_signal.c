/* EarlySignal: an interposed library that sends USR1 to a program in the first moments of its main, when it sets the
 * handler of SIGPIPE. With EARLY_SIGNAL=before it sends USR1 while libraries are initialized. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int before(void) { return getenv("EARLY_SIGNAL") && !strcmp(getenv("EARLY_SIGNAL"), "before"); }

__attribute__((constructor)) static void initialize(void) {
  if (before()) kill(getpid(), SIGUSR1);
}

typedef void (*handler)(int);

handler signal(int number, handler what) {
  static int sent = 0;
  if (number == SIGPIPE && !before() && !sent++) kill(getpid(), SIGUSR1);
  return ((handler(*)(int, handler))dlsym(RTLD_NEXT, "signal"))(number, what);
}
