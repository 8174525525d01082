/* Runs a program beside this process, without a shell and not for ever. */
#define _GNU_SOURCE /* memfd_create */

#include "benchio.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

/* Waits for the end of a program: 0, ETIMEDOUT if that takes more than so many seconds, or why
 * nobody knows how it ended, as where the signal of its end is ignored. */
static int wait_for(pid_t child, int *status, int32_t seconds)
{
    enum { moments_a_second = 200 };
    const struct timespec moment = {.tv_nsec = 1000000000 / moments_a_second};
    pid_t ended;

    for (int i = 0; (ended = waitpid(child, status, WNOHANG)) == 0; i++) {
        if (i >= seconds * moments_a_second)
            return ETIMEDOUT;
        nanosleep(&moment, NULL);
    }
    return ended < 0 ? errno : 0;
}

/* Copies the beginning of a file, ended by NUL. */
static void copy_beginning(int file, char *text, int32_t size)
{
    const ssize_t length = pread(file, text, (size_t)size - 1, 0);

    text[length > 0 ? length : 0] = '\0';
}

/* posix_spawn, unlike fork, neither copies this process nor runs the handlers of fork, so memory
 * that an interconnect has registered stays as it is. The program has a process group of its own,
 * so that all that it starts ends with it. */
static int spawn(char **arguments, int out, int err, pid_t *child)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    int error;

    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, err, STDERR_FILENO);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
    error = posix_spawnp(child, arguments[0], &actions, &attributes, arguments, environ);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    return error;
}

static volatile pid_t running; /* 0: none */

/* Ends the program that runs, if there is one, before this process ends without having waited. */
void benchio_end_program(void)
{
    if (running > 0)
        kill(-running, SIGKILL);
}

/* Runs a program and keeps the beginning of what it says on stdout and stderr, each in size bytes;
 * until its end all of that is in memory, where a program never waits to write. The words of its
 * command line each end with NUL, the last with two. Returns its exit status, 128 + the signal that
 * ended it, or -errno when it could not be run: -ETIMEDOUT if it has not ended after so many
 * seconds, when it is killed. */
int benchio_run_program(const char *words, int32_t seconds, char *output, char *complaint,
                        int32_t size)
{
    enum { most_words = 256 };
    char *arguments[most_words + 1];
    const int out = memfd_create("stdout", MFD_CLOEXEC), err = memfd_create("stderr", MFD_CLOEXEC);
    int count = 0, error = out < 0 || err < 0 ? errno : 0, status = 0;
    pid_t child;

    for (; *words != '\0' && error == 0; words += strlen(words) + 1) {
        if (count == most_words)
            error = E2BIG;
        else
            arguments[count++] = (char *)words; /* posix_spawn changes none */
    }
    arguments[count] = NULL;
    if (error == 0)
        error = spawn(arguments, out, err, &child);
    if (error == 0) {
        running = child;
        error = wait_for(child, &status, seconds);
        if (error == ETIMEDOUT) {
            /* One that hangs in a system call survives even that, and is left. */
            kill(-child, SIGKILL);
            wait_for(child, &status, 1);
        }
        running = 0;
    }
    copy_beginning(out, output, size);
    copy_beginning(err, complaint, size);
    close(out);
    close(err);
    if (error != 0)
        return -error;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
