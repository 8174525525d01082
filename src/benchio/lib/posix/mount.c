/* Which filesystem a path is on, as this process sees it. For mount.f90, whose type it fills. */
#define _GNU_SOURCE /* O_PATH */

#include "benchio.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

enum { longest = 4096, word = 64 };

/* Replaces octal numbers such as \040, as the kernel writes blanks. */
static void decode(char *text)
{
    char *to = text;

    for (const char *from = text; *from != '\0'; to++) {
        unsigned digits;

        if (from[0] == '\\' && sscanf(from + 1, "%3o", &digits) == 1) {
            *to = (char)digits;
            from += 4;
        } else {
            *to = *from++;
        }
    }
    *to = '\0';
}

/* The number that the kernel gives the mount of an open file; -1 if it does not say. */
static long mount_number(int fd)
{
    char name[word], line[word];
    long number = -1;
    FILE *info;

    snprintf(name, sizeof name, "/proc/self/fdinfo/%d", fd);
    info = fopen(name, "re");
    while (info != NULL && fgets(line, sizeof line, info) != NULL)
        sscanf(line, "mnt_id: %ld", &number);
    if (info != NULL)
        fclose(info);
    return number;
}

/* Whether a file is no link and in the mount of a directory, as is all that is made there: 0; or 1,
 * or -1 if it cannot be seen. Their device numbers differ within an overlay or a Btrfs, too. */
int benchio_lies_elsewhere(const char *path, const char *directory)
{
    const int file = open(path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    const int folder = open(directory, O_PATH | O_CLOEXEC);
    struct stat st;
    int answer = -1;

    if (file >= 0 && folder >= 0 && fstat(file, &st) == 0)
        answer = S_ISLNK(st.st_mode) || mount_number(file) != mount_number(folder);
    if (file >= 0)
        close(file);
    if (folder >= 0)
        close(folder);
    return answer;
}

/* Whether an absolute path without links is at or below a mount point. */
static int is_below(const char *path, const char *point)
{
    const size_t length = strcmp(point, "/") == 0 ? 0 : strlen(point);

    return strncmp(path, point, length) == 0 && (path[length] == '/' || path[length] == '\0');
}

/* What the mount table says: of the mount with this number, or else of the mount points above the
 * path the longest, and of equal ones the last, which hides the others. In a changed root the mount
 * of / may be in no table. Fields end with one blank, and may be empty. */
static void look_up(const char *path, long number, struct mounted *mounted)
{
    enum { id, point = 4, options, optional };
    FILE *table = fopen("/proc/self/mountinfo", "re");
    char *line = NULL;
    size_t size = 0;
    int is_certain = 0;

    strcpy(mounted->point, "/");
    while (table != NULL && !is_certain && getline(&line, &size, table) > 0) {
        char *rest = line, *field[optional] = {NULL}, *type, *source, *of_all;

        line[strcspn(line, "\n")] = '\0';
        for (int i = id; i < optional; i++)
            field[i] = strsep(&rest, " ");
        while (rest != NULL && strcmp(strsep(&rest, " "), "-") != 0)
            ;
        type = strsep(&rest, " ");
        source = strsep(&rest, " ");
        of_all = strsep(&rest, " ");
        if (of_all == NULL)
            continue;
        decode(field[point]);
        decode(source);
        is_certain = atol(field[id]) == number;
        if (!is_certain
            && !(is_below(path, field[point])
                 && strlen(field[point]) >= strlen(mounted->point)))
            continue;
        snprintf(mounted->point, longest, "%s", field[point]);
        snprintf(mounted->source, longest, "%s", source);
        snprintf(mounted->options, longest, "%s,%s", field[options], of_all);
        snprintf(mounted->type, word, "%s", type);
    }
    free(line);
    if (table != NULL)
        fclose(table);
}

/* Writes 16 bytes as people write a UUID; empty if they are all 0. */
static void write_uuid(char *text, const unsigned char *bytes)
{
    static const unsigned char none[16];

    text[0] = '\0';
    for (int i = 0; i < 16 && memcmp(bytes, none, 16) != 0; i++)
        snprintf(text + strlen(text), word - strlen(text), "%s%02x",
                 i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", bytes[i]);
}

/* The UUID of the filesystem of an open file, as far as an ordinary user can learn it: of any since
 * Linux 6.9, and before that by the calls of XFS, ext4 and Btrfs. The text has room for 64. */
int benchio_ask_uuid(int fd, char *text)
{
    struct {
        uint8_t length, bytes[16];
    } any = {0, {0}};
    struct {
        uint64_t before[8];
        uint8_t bytes[16];
        uint32_t after[8];
    } xfs;
    struct {
        uint32_t length, flags;
        uint8_t bytes[16];
    } ext4 = {16, 0, {0}};
    struct {
        uint64_t before[2];
        uint8_t bytes[16], after[992];
    } btrfs;

    text[0] = '\0';
    if (ioctl(fd, _IOR(0x15, 0, any), &any) == 0 && any.length == 16)
        write_uuid(text, any.bytes);
    else if (ioctl(fd, _IOR('X', 124, xfs), &xfs) == 0)
        write_uuid(text, xfs.bytes);
    else if (ioctl(fd, _IOR('f', 44, uint32_t[2]), &ext4) == 0)
        write_uuid(text, ext4.bytes);
    else if (ioctl(fd, _IOR(0x94, 31, btrfs), &btrfs) == 0)
        write_uuid(text, btrfs.bytes);
    return text[0] != '\0';
}

/* The same by the links that udev makes, if one leads to this device. */
static void look_for_uuid(dev_t device, char *text)
{
    const char *folder = "/dev/disk/by-uuid";
    DIR *links = opendir(folder);
    struct dirent *entry;
    struct stat st;

    while (links != NULL && text[0] == '\0' && (entry = readdir(links)) != NULL)
        if (fstatat(dirfd(links), entry->d_name, &st, 0) == 0 && S_ISBLK(st.st_mode)
            && st.st_rdev == device)
            snprintf(text, word, "%.*s", word - 1, entry->d_name);
    if (links != NULL)
        closedir(links);
}

/* Tells of the filesystem at an absolute path without links. Returns 0 or errno. */
int benchio_mounted(const char *path, struct mounted *mounted)
{
    struct statfs fs;
    struct stat st;
    int fd, seen;

    memset(mounted, 0, sizeof *mounted);
    fd = open(path, O_PATH | O_CLOEXEC); /* which makes an automounter mount it */
    if (fd < 0)
        return errno;
    if (statfs(path, &fs) != 0 || fstat(fd, &st) != 0) {
        const int error = errno;

        close(fd);
        return error;
    }
    look_up(path, mount_number(fd), mounted);
    gethostname(mounted->host, longest - 1);
    close(fd);
    mounted->magic = (int64_t)(uint32_t)fs.f_type; /* some kernels sign-extend it */
    mounted->block_bytes = (int64_t)fs.f_bsize;
    mounted->bytes = (int64_t)fs.f_blocks * mounted->block_bytes;
    mounted->free_bytes = (int64_t)fs.f_bavail * mounted->block_bytes;
    mounted->has_device = major(st.st_dev) != 0;
    if (memcmp(&fs.f_fsid, &(fsid_t){{0, 0}}, sizeof fs.f_fsid) != 0)
        snprintf(mounted->fsid, word, "%08x%08x", (unsigned)fs.f_fsid.__val[0],
                 (unsigned)fs.f_fsid.__val[1]);
    seen = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if ((seen < 0 || !benchio_ask_uuid(seen, mounted->uuid)) && mounted->has_device)
        look_for_uuid(st.st_dev, mounted->uuid);
    if (seen >= 0)
        close(seen);
    return 0;
}

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
