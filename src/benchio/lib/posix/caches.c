/* Caches of this node that a file's bytes may be in, and whose pages nobody can see: below the
 * filesystem, or in it. */
#define _XOPEN_SOURCE 700

#include "benchio.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

/* Whether the kernel's page cache does not have all that a filesystem of this type, as statfs names
 * it, keeps in this node's memory. Of ext4, XFS, Btrfs, F2FS, overlay, NFS, SMB, Lustre, CephFS,
 * BeeGFS, 9p, tmpfs and ramfs it has; FUSE, GPFS, ZFS, Weka and whatever else there is may have a
 * cache of their own. */
int benchio_has_own_cache(int64_t type)
{
    static const int64_t without[] = {0xef53, 0x58465342, 0x9123683e, 0xf2f52010, 0x794c7630,
                                       0x6969, 0xfe534d42, 0xff534d42, 0x0bd00bd0, 0x00c36400,
                                       0x19830326, 0x01021997, 0x01021994, 0x858458f6};

    for (size_t i = 0; i < sizeof without / sizeof without[0]; i++)
        if (type == without[i])
            return 0;
    return 1;
}

/* The first line of a file in a folder of /sys; empty if it has no such file. */
static void read_line(const char *folder, const char *name, char *line, int size)
{
    char path[PATH_MAX];
    FILE *file = NULL;

    line[0] = '\0';
    if (snprintf(path, sizeof path, "%s/%s", folder, name) < PATH_MAX)
        file = fopen(path, "re");
    if (file == NULL)
        return;
    if (fgets(line, size, file) != NULL)
        line[strcspn(line, "\n")] = '\0';
    fclose(file);
}

/* Whether the file behind a loop device is read from memory: this node's page cache, unless the
 * device asks for direct I/O, and then what is below that file. Nobody knows what that is where the
 * file is in another mount namespace. */
static int loop_caches(const char *sys, const char *folder)
{
    char direct[8], file[PATH_MAX];
    const uint32_t tmpfs = 0x01021994, ramfs = 0x858458f6;
    struct statfs fs;
    struct stat st;
    char device[32];

    read_line(folder, "loop/dio", direct, sizeof direct);
    if (strcmp(direct, "1") != 0)
        return 1;
    read_line(folder, "loop/backing_file", file, sizeof file);
    if (stat(file, &st) != 0 || statfs(file, &fs) != 0)
        return 1;
    if ((uint32_t)fs.f_type == tmpfs || (uint32_t)fs.f_type == ramfs)
        return 1;
    snprintf(device, sizeof device, "%u:%u", major(st.st_dev), minor(st.st_dev));
    return benchio_has_own_cache((uint32_t)fs.f_type) || benchio_device_caches(sys, device);
}

/* Whether any of the devices in a folder of /sys caches. */
static int any_caches(const char *sys, const char *folder)
{
    DIR *parts = opendir(folder);
    char path[PATH_MAX], number[32];
    struct dirent *part;
    int caches = 0;

    while (parts != NULL && !caches && (part = readdir(parts)) != NULL) {
        if (part->d_name[0] == '.'
            || snprintf(path, sizeof path, "%s/%s", folder, part->d_name) >= PATH_MAX)
            continue;
        read_line(path, "dev", number, sizeof number);
        caches = number[0] != '\0' && benchio_device_caches(sys, number);
    }
    if (parts != NULL)
        closedir(parts);
    return caches;
}

/* Whether an NVMe device is served by a network: its controller, or each of a device of several, has
 * a transport. */
static int nvme_is_remote(const char *folder)
{
    static const char *const nets[] = {"tcp", "rdma", "fc", "loop"};
    char path[PATH_MAX], transport[32];
    struct dirent *part;
    int is_remote = 0;
    DIR *parts;

    if (snprintf(path, sizeof path, "%s/..", folder) >= PATH_MAX
        || (parts = opendir(path)) == NULL)
        return 0;
    while (!is_remote && (part = readdir(parts)) != NULL) {
        if (strcmp(part->d_name, ".") != 0 && strncmp(part->d_name, "nvme", 4) != 0)
            continue;
        if (snprintf(path, sizeof path, "%s/../%s", folder, part->d_name) >= PATH_MAX)
            continue;
        read_line(path, "transport", transport, sizeof transport);
        for (size_t i = 0; i < sizeof nets / sizeof nets[0]; i++)
            is_remote = is_remote || strcmp(transport, nets[i]) == 0;
    }
    closedir(parts);
    return is_remote;
}

/* Whether a block device, "major:minor", or one that it is made of, keeps what is read in memory:
 * of this node, or of who serves it by a network or in user space, and may be this node, too. */
int benchio_device_caches(const char *sys, const char *device)
{
    static const char *const serving[] = {"nbd", "rbd", "drbd", "zd", "zram", "ram", "ublkb"};
    char path[PATH_MAX], folder[PATH_MAX];
    const char *name;

    snprintf(path, sizeof path, "%s/dev/block/%s", sys, device);
    if (realpath(path, folder) == NULL)
        return 0;
    if (snprintf(path, sizeof path, "%s/partition", folder) < PATH_MAX && access(path, F_OK) == 0)
        *strrchr(folder, '/') = '\0'; /* of the whole device, which it stands in */
    name = strrchr(folder, '/') + 1;
    for (size_t i = 0; i < sizeof serving / sizeof serving[0]; i++) {
        const size_t length = strlen(serving[i]);

        if (strncmp(name, serving[i], length) == 0 && strspn(name + length, "0123456789") > 0)
            return 1;
    }
    if (strstr(folder, "/session") != NULL) /* of iSCSI */
        return 1;
    if (strncmp(name, "nvme", 4) == 0 && nvme_is_remote(folder))
        return 1;
    if (snprintf(path, sizeof path, "%s/loop", folder) < PATH_MAX && access(path, F_OK) == 0)
        return loop_caches(sys, folder);
    if (snprintf(path, sizeof path, "%s/slaves", folder) >= PATH_MAX)
        return 0;
    return any_caches(sys, path);
}

/* The same of the devices of a Btrfs with this UUID, whose files have no device's number. */
int benchio_btrfs_caches(const char *sys, const char *uuid)
{
    char folder[PATH_MAX];

    snprintf(folder, sizeof folder, "%s/fs/btrfs/%s/devices", sys, uuid);
    return any_caches(sys, folder);
}
