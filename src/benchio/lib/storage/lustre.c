/* What Lustre tells by ioctl alone. */
#include "benchio.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* The metadata target that a file or directory is on. Returns 0 or errno. */
int benchio_lustre_mdt(const char *path, int32_t *index)
{
    const unsigned long get_mdt_index = _IOR('f', 175, int); /* lustre_user.h: LL_IOC_GET_MDTIDX */
    int error, mdt = -1, fd = open(path, O_RDONLY | O_CLOEXEC);

    if (fd < 0)
        return errno;
    error = ioctl(fd, get_mdt_index, &mdt) == 0 ? 0 : errno;
    *index = mdt;
    close(fd);
    return error;
}
