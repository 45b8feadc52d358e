/* EarlySignal: an interposed library that sends USR1 to the program in the first moments of its main, when it sets what SIGPIPE does; with EARLY_SIGNAL=before while libraries are initialized. */
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
