/* How a program ended, and where nobody can know that, no success. */
#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "benchio.h"
#include "expect.h"

int main(void)
{
    char said[64], complaint[64];
    const int32_t size = sizeof said;

    expect(benchio_run_program("echo\0well\0", 60, said, complaint, size) == 0
               && strcmp(said, "well\n") == 0,
           "a program that ends well");
    expect(benchio_run_program("false\0", 60, said, complaint, size) == 1, "or not");
    expect(benchio_run_program("no such program\0", 60, said, complaint, size) == -ENOENT, "none");
    expect(benchio_run_program("sleep\0" "60\0", 0, said, complaint, size) == -ETIMEDOUT, "a hang");
    signal(SIGCHLD, SIG_IGN);
    expect(benchio_run_program("true\0", 60, said, complaint, size) == -ECHILD, "one unknown");
    return 0;
}
