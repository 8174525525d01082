/* fsync for backends whose library has none. */
#define _XOPEN_SOURCE 700

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

/* What this node still holds of the file, whoever wrote it, to stable storage; 0 or errno. */
int benchio_sync_path(const char *path)
{
    int error = 0, fd = open(path, O_WRONLY);

    if (fd < 0)
        return errno;
    if (fsync(fd) != 0)
        error = errno;
    if (close(fd) != 0 && error == 0)
        error = errno;
    return error;
}
