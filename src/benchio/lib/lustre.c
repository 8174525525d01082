/* Lustre's striping: the extended attribute that holds it, and the program that sets it. */
#define _GNU_SOURCE /* pipe2 */

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

extern char **environ;

/* The layout of a file as Lustre stores it; length 0 if it has none. Returns 0 or errno. */
int benchio_lustre_layout(const char *path, void *bytes, int32_t size, int32_t *length)
{
    ssize_t found = lgetxattr(path, "lustre.lov", bytes, (size_t)size);

    *length = found < 0 ? 0 : (int32_t)found;
    if (found >= 0 || errno == ENODATA || errno == ENOTSUP)
        return 0;
    return errno;
}

/* Keeps the beginning of what comes through a pipe, ended by NUL, and reads the rest: a program
 * whose pipe is full would wait, and one whose pipe is closed would die. */
static void read_output(int pipe, char *output, size_t size)
{
    char rest[512];
    size_t used = 0;
    ssize_t got;

    do {
        if (used < size - 1)
            got = read(pipe, output + used, size - 1 - used);
        else
            got = read(pipe, rest, sizeof rest);
        if (got > 0 && used < size - 1)
            used += (size_t)got;
    } while (got > 0 || (got < 0 && errno == EINTR));
    output[used] = '\0';
}

/* Runs a program without a shell and keeps the beginning of what it says on stdout and stderr. The
 * words of its command line each end with NUL, the last with two. Returns its exit status, 128 +
 * the signal that ended it, or -errno when it could not be run.
 *
 * posix_spawn, unlike fork, neither copies this process nor runs the handlers of fork, so memory
 * that an interconnect has registered stays as it is. */
int benchio_run_program(const char *words, char *output, int32_t size)
{
    enum { most_words = 32 };
    char *arguments[most_words + 1];
    int count = 0, ends[2], error, status;
    posix_spawn_file_actions_t actions;
    pid_t child;

    output[0] = '\0';
    for (; *words != '\0'; words += strlen(words) + 1) {
        if (count == most_words)
            return -E2BIG;
        arguments[count++] = (char *)words; /* posix_spawn changes none */
    }
    arguments[count] = NULL;
    if (pipe2(ends, O_CLOEXEC) != 0)
        return -errno;

    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDERR_FILENO);
    error = posix_spawnp(&child, arguments[0], &actions, NULL, arguments, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    if (error == 0)
        read_output(ends[0], output, (size_t)size);
    close(ends[0]);
    if (error != 0)
        return -error;
    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR)
            return -errno;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
