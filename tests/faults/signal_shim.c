/* A library that takes SIGHUP as it is loaded, as UCX does. */
#include <signal.h>

static void take(int number) { (void)number; }

static __attribute__((constructor)) void load(void) { signal(SIGHUP, take); }
