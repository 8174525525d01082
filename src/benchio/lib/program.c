/* Runs a program beside this process, without a shell and not for ever. */
#define _GNU_SOURCE /* pipe2 */

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

/* What comes through a pipe: the beginning is kept, ended by NUL, and the rest is read all the
 * same, for a program whose pipe is full would wait, and one whose pipe is closed would die. */
struct catch {
    char *text;
    size_t used, size;
};

/* Reads what there is; 0 at the end of the pipe. */
static int catch_some(int pipe, struct catch *caught)
{
    char rest[512];
    size_t room = caught->size - 1 - caught->used;
    ssize_t got = read(pipe, room > 0 ? caught->text + caught->used : rest,
                       room > 0 ? room : sizeof rest);

    if (got > 0 && room > 0)
        caught->used += (size_t)got;
    caught->text[caught->used] = '\0';
    return got > 0 || (got < 0 && (errno == EINTR || errno == EAGAIN));
}

static int64_t milliseconds(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Reads both pipes to their ends; 0 if that takes too long. */
static int catch_all(const int *pipes, struct catch *caught, int64_t deadline)
{
    struct pollfd open[2] = {{pipes[0], POLLIN, 0}, {pipes[1], POLLIN, 0}};

    while (open[0].fd >= 0 || open[1].fd >= 0) {
        int64_t left = deadline - milliseconds();

        if (left <= 0)
            return 0;
        if (poll(open, 2, (int)left) <= 0)
            continue;
        for (int i = 0; i < 2; i++)
            if (open[i].fd >= 0 && open[i].revents != 0 && !catch_some(open[i].fd, &caught[i]))
                open[i].fd = -1; /* poll leaves it out */
    }
    return 1;
}

/* Waits for the end of a program: 0, ETIMEDOUT if that takes too long, or why nobody knows how it
 * ended, as where the signal of its end is ignored. */
static int wait_for(pid_t child, int *status, int64_t deadline)
{
    const struct timespec moment = {0, 5000000};
    pid_t ended;

    while ((ended = waitpid(child, status, WNOHANG)) == 0) {
        if (milliseconds() >= deadline)
            return ETIMEDOUT;
        nanosleep(&moment, NULL);
    }
    return ended < 0 ? errno : 0;
}

/* posix_spawn, unlike fork, neither copies this process nor runs the handlers of fork, so memory
 * that an interconnect has registered stays as it is. The program has a process group of its own,
 * so that all that it starts ends with it. */
static int spawn(char **arguments, const int *out, const int *err, pid_t *child)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    int error;

    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, err[1], STDERR_FILENO);
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

/* Runs a program and keeps the beginning of what it says on stdout and stderr, each in size bytes.
 * The words of its command line each end with NUL, the last with two. Returns its exit status, 128
 * + the signal that ended it, or -errno when it could not be run: -ETIMEDOUT if it has not ended
 * after so many seconds, when it is killed. */
int benchio_run_program(const char *words, int32_t seconds, char *output, char *complaint,
                        int32_t size)
{
    enum { most_words = 256, second = 1000 };
    struct catch caught[2] = {{output, 0, (size_t)size}, {complaint, 0, (size_t)size}};
    char *arguments[most_words + 1];
    int count = 0, error, out[2], err[2], status = 0;
    int64_t deadline = milliseconds() + (int64_t)seconds * second;
    pid_t child;

    output[0] = complaint[0] = '\0';
    for (; *words != '\0'; words += strlen(words) + 1) {
        if (count == most_words)
            return -E2BIG;
        arguments[count++] = (char *)words; /* posix_spawn changes none */
    }
    arguments[count] = NULL;
    if (pipe2(out, O_CLOEXEC) != 0)
        return -errno;
    if (pipe2(err, O_CLOEXEC) != 0) {
        error = errno;
        close(out[0]);
        close(out[1]);
        return -error;
    }

    error = spawn(arguments, out, err, &child);
    close(out[1]);
    close(err[1]);
    if (error == 0) {
        const int pipes[2] = {out[0], err[0]};

        running = child;
        error = catch_all(pipes, caught, deadline) ? wait_for(child, &status, deadline) : ETIMEDOUT;
        if (error == ETIMEDOUT) {
            /* One that hangs in a system call survives even that, and is left. */
            kill(-child, SIGKILL);
            wait_for(child, &status, milliseconds() + second);
        }
        running = 0;
    }
    close(out[0]);
    close(err[0]);
    if (error != 0)
        return -error;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
