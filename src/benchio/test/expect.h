/* The one assertion of the unit tests in C. */
#include <stdio.h>
#include <stdlib.h>

/* Stops with exit status 1 unless what was expected holds. */
static inline void expect(int holds, const char *what)
{
    if (holds)
        return;
    fprintf(stderr, "does not hold: %s\n", what);
    exit(1);
}
