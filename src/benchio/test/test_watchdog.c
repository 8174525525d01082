/* The limit that counts is the last one, however far the one before it was. */
#include <stdint.h>
#include <sys/wait.h>
#include <unistd.h>

#include "benchio.h"
#include "expect.h"

int main(void)
{
    const struct notice met = {.status = 6};
    int status;
    pid_t child = fork();

    if (child == 0) {
        benchio_guard("", "", "", "", "", 0);
        expect(benchio_start_watchdog(0, "here") == 0, "a thread");
        benchio_watch_failed(3600, 0, "the first limit", &met, 0, 0, 0);
        sleep(1); /* until the clock sleeps */
        benchio_watch(1, 0, "the second limit", "", "", 0);
        alarm(10); /* which kills it */
        for (;;)
            pause();
    }
    expect(child > 0 && waitpid(child, &status, 0) == child, "a process to be ended");
    expect(WIFEXITED(status) && WEXITSTATUS(status) == 5, "a limit that is earlier is kept");
    return 0;
}
