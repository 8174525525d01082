/* The alarm behind watchdog.f90. */
#define _XOPEN_SOURCE 700

#include <limits.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static struct {
    char file[PATH_MAX], directory[PATH_MAX], message[PATH_MAX + 256];
    size_t length;
    unsigned delay;
    int status;
    volatile sig_atomic_t is_over;
} watched;

/* At the limit this rank removes its file, as every rank does; at the second alarm it ends. Calls
 * nothing but what a signal handler may. */
static void on_alarm(int signal)
{
    ssize_t written;

    (void)signal;
    if (!watched.is_over) {
        watched.is_over = 1;
        if (watched.file[0] != '\0')
            unlink(watched.file);
        alarm(watched.delay);
        return;
    }
    written = write(STDERR_FILENO, watched.message, watched.length);
    (void)written;
    rmdir(watched.directory); /* only an empty one goes */
    _exit(watched.status);
}

/* Unless called again within so many seconds, remove file (unless its name is empty) and, after so
 * many more of delay, say message, remove the directory if it is empty, and end this process. With
 * 0 seconds never. Once the limit is over the end cannot be put off: a call then waits for it. */
void benchio_watch(int32_t seconds, int32_t delay, const char *file, const char *directory,
                   const char *message, int32_t status)
{
    struct sigaction action;

    alarm(0);
    if (watched.is_over)
        alarm(watched.delay); /* the second alarm may be what was just put off */
    while (watched.is_over)
        pause();
    if (seconds == 0)
        return;
    snprintf(watched.file, sizeof watched.file, "%s", file);
    snprintf(watched.directory, sizeof watched.directory, "%s", directory);
    snprintf(watched.message, sizeof watched.message, "%s", message);
    watched.length = strlen(watched.message);
    watched.delay = (unsigned)delay;
    watched.status = status;
    memset(&action, 0, sizeof action);
    action.sa_handler = on_alarm;
    action.sa_flags = SA_RESTART; /* a library's call goes on until the second alarm */
    sigaction(SIGALRM, &action, NULL);
    alarm((unsigned)seconds);
}
