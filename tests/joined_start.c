// A test of a joined folder, as a program: test_FOLDER_NAME starts test_FOLDER beside it under its own name, by which
// that one knows what to run (joined_main.cpp).
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char** argv) {
  char self[PATH_MAX] = "", joined[PATH_MAX];
  (void)argc;
  if (readlink("/proc/self/exe", self, sizeof self - 1) < 0) return perror("/proc/self/exe"), 1;
  strcpy(joined, self);
  char* folder = strchr(strrchr(joined, '/'), '_');
  char* name = folder ? strchr(folder + 1, '_') : NULL;
  if (!name) return fprintf(stderr, "%s: a name test_FOLDER_NAME is expected\n", self), 1;
  *name = '\0';
  argv[0] = self;
  execv(joined, argv);
  return perror(joined), 1;
}
