/* The limit that counts is the last one, however far the one before it was. */
#include <stdint.h>
#include <sys/wait.h>
#include <unistd.h>

#include "expect.h"

void benchio_guard(const char *files, const char *companions, const char *probe,
                   const char *directories, const char *written, int64_t bytes);
int32_t benchio_start_watchdog(void);
void benchio_watch(int32_t seconds, int32_t delay, const char *message, const char *reason,
                   int32_t probes, int32_t status, int32_t may_be_cut);

int main(void)
{
    int status;
    pid_t child = fork();

    if (child == 0) {
        benchio_guard("", "", "", "", "", 0);
        expect(benchio_start_watchdog() == 0, "a thread");
        benchio_watch(3600, 0, "the first limit", "", 0, 6, 0);
        sleep(1); /* until the clock sleeps */
        benchio_watch(1, 0, "the second limit", "", 0, 5, 0);
        alarm(10); /* which kills it */
        for (;;)
            pause();
    }
    expect(child > 0 && waitpid(child, &status, 0) == child, "a process to be ended");
    expect(WIFEXITED(status) && WEXITSTATUS(status) == 5, "a limit that is earlier is kept");
    return 0;
}
