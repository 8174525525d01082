/* Lustre's striping: the extended attribute that holds it, and commands whose words are kept. */
#define _XOPEN_SOURCE 700

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/wait.h>
#include <sys/xattr.h>

/* The layout of a file as Lustre stores it; length 0 if it has none. Returns 0 or errno. */
int benchio_lustre_layout(const char *path, void *bytes, int32_t size, int32_t *length)
{
    ssize_t found = lgetxattr(path, "lustre.lov", bytes, (size_t)size);

    *length = found < 0 ? 0 : (int32_t)found;
    if (found >= 0 || errno == ENODATA || errno == ENOTSUP)
        return 0;
    return errno;
}

/* Runs a shell command and keeps the beginning of what it says on stdout and stderr, ended by NUL.
 * Its exit status, 128 + the signal that ended it, or -errno when it could not be run. */
int benchio_run(const char *command, char *output, int32_t size)
{
    char rest[512];
    FILE *pipe = popen(command, "r");
    size_t length;
    int status;

    output[0] = '\0';
    if (pipe == NULL)
        return -errno;
    length = fread(output, 1, (size_t)size - 1, pipe);
    output[length] = '\0';
    while (fread(rest, 1, sizeof rest, pipe) > 0) /* or it would die of SIGPIPE */
        ;
    status = pclose(pipe);
    if (status == -1)
        return -errno;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
