/* The alarm behind watchdog.f90. */
#define _XOPEN_SOURCE 700

#include <limits.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static struct {
    char path[PATH_MAX], message[PATH_MAX + 256];
    size_t length;
    char *digits; /* of the file's number in path */
    int files, status;
} watched;

/* Calls nothing but what a signal handler may. */
static void end_hang(int signal)
{
    ssize_t written;

    (void)signal;
    written = write(STDERR_FILENO, watched.message, watched.length);
    (void)written;
    /* The other ranks will be killed before they can remove theirs. */
    for (int file = 0; file < watched.files; file++) {
        if (watched.digits != NULL)
            for (int i = 5, rest = file; i >= 0; i--, rest /= 10)
                watched.digits[i] = (char)('0' + rest % 10);
        unlink(watched.path);
    }
    _exit(watched.status);
}

/* Unless called again within so many seconds, say message, remove the files and end this process;
 * 0 seconds: never. Of several files, path has the six digits of one's number behind the
 * numbered-th character. */
void benchio_watch(int32_t seconds, const char *path, int32_t files, int32_t numbered,
                   const char *message, int32_t status)
{
    struct sigaction action;

    alarm(0);
    if (seconds == 0)
        return;
    snprintf(watched.path, sizeof watched.path, "%s", path);
    snprintf(watched.message, sizeof watched.message, "%s", message);
    watched.length = strlen(watched.message);
    watched.files = files;
    watched.digits = files > 1 ? watched.path + numbered : NULL;
    watched.status = status;
    memset(&action, 0, sizeof action);
    action.sa_handler = end_hang;
    sigaction(SIGALRM, &action, NULL);
    alarm((unsigned)seconds);
}
