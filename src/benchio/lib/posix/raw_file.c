/* Plain POSIX access to a file's bytes. Functions return 0, errno, or one of the two below it. */
#define _GNU_SOURCE /* O_DIRECT, preadv, mincore */

#include "benchio.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum { end_of_file = -1, not_aligned = -2 };

/* What O_DIRECT is given multiples of: no filesystem's block is larger than this or a page. */
int64_t benchio_raw_alignment(void)
{
    const int64_t page = sysconf(_SC_PAGESIZE);

    return page > 4096 ? page : 4096;
}

/* The type of the filesystem that a file is on, as statfs names it; 0 if nobody knows. */
static uint32_t type_of_filesystem(int fd)
{
    struct statfs filesystem;

    return fstatfs(fd, &filesystem) == 0 ? (uint32_t)filesystem.f_type : 0;
}

/* Filesystems in memory take O_DIRECT, since Linux 6.6, and have nothing but the page cache. */
static int is_in_memory(int fd)
{
    const uint32_t type = type_of_filesystem(fd), tmpfs = 0x01021994, ramfs = 0x858458f6;

    return type == tmpfs || type == ramfs;
}

/* Whether a read by O_DIRECT, too, may come from this node's memory: from a cache below the
 * filesystem, or from that of ZFS, which before OpenZFS 2.3 takes O_DIRECT and ignores it. Devices
 * are looked at once, one after the other. */
static int is_cached_below(int fd)
{
    static dev_t last;
    static int caches;
    const uint32_t zfs = 0x2fc12fc1, btrfs = 0x9123683e, type = type_of_filesystem(fd);
    char name[64];
    struct stat st;

    if (type == zfs)
        return 1;
    if (fstat(fd, &st) != 0 || st.st_dev == last)
        return caches;
    last = st.st_dev;
    snprintf(name, sizeof name, "%u:%u", major(last), minor(last));
    caches = benchio_device_caches("/sys", name);
    if (type == btrfs && benchio_ask_uuid(fd, name))
        caches = benchio_btrfs_caches("/sys", name);
    return caches;
}

/* Opens for writing or else for reading; direct says whether O_DIRECT is wanted, then whether the
 * filesystem took it. */
int benchio_raw_open(const char *path, int32_t writes, int32_t creates, int32_t *direct, int *fd)
{
    int flags = O_CLOEXEC | (writes ? O_WRONLY : O_RDONLY) | (creates ? O_CREAT | O_EXCL : 0);

    *fd = open(path, flags | (*direct ? O_DIRECT : 0), 0666);
    if (*fd < 0 && *direct && (errno == EINVAL || errno == EOPNOTSUPP)) {
        *direct = 0;
        /* A new file was made before O_DIRECT was refused. */
        *fd = open(path, flags & ~O_EXCL, 0666);
    }
    if (*fd >= 0 && *direct && (is_in_memory(*fd) || (!writes && is_cached_below(*fd))))
        *direct = fcntl(*fd, F_SETFL, fcntl(*fd, F_GETFL) & ~O_DIRECT) != 0;
    return *fd < 0 ? errno : 0;
}

int benchio_raw_close(int fd)
{
    return close(fd) == 0 ? 0 : errno;
}

int benchio_raw_sync(int fd)
{
    while (fsync(fd) != 0)
        if (errno != EINTR)
            return errno;
    return 0;
}

/* What a page meets at each of these places of the file at path, one after the other: an errno or
 * 0, and -1 as long as it has not returned. Returns 0, or the errno of opening the file. Past the
 * page cache where the filesystem lets it: an fsync would wait for all that is dirty in the file,
 * and tell of that. */
int benchio_probe_places(const char *path, int32_t count, const int64_t *offsets,
                         _Atomic int32_t *errors)
{
    const size_t block = (size_t)benchio_raw_alignment();
    int32_t direct = 1;
    void *page;
    int fd, error = benchio_raw_open(path, 1, 0, &direct, &fd);

    if (error != 0)
        return error;
    error = posix_memalign(&page, block, block);
    if (error == 0) {
        memset(page, 0, block);
        for (int32_t i = 0; i < count; i++) {
            errors[i] = -1;
            if (pwrite(fd, page, block, offsets[i]) < 0)
                errors[i] = errno;
            else
                errors[i] = direct ? 0 : benchio_raw_sync(fd);
        }
        free(page);
    }
    close(fd);
    return error;
}

/* Adjacent bytes of the file, in as many places of memory as one call takes. */
struct run {
    int64_t at, bytes;
    int parts;
    struct iovec part[IOV_MAX];
};

/* Moves a run, in as many calls as that takes, and forgets it; at is then where it ended. */
static int move_run(int fd, int writes, struct run *run)
{
    struct iovec *part = run->part;

    while (run->parts > 0) {
        ssize_t n = writes ? pwritev(fd, part, run->parts, run->at)
                           : preadv(fd, part, run->parts, run->at);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return errno;
        if (n == 0)
            return writes ? EIO : end_of_file;
        run->at += n;
        for (; run->parts > 0 && (size_t)n >= part->iov_len; run->parts--)
            n -= (ssize_t)(part++)->iov_len;
        if (run->parts > 0) {
            part->iov_base = (char *)part->iov_base + n;
            part->iov_len -= (size_t)n;
        }
    }
    run->bytes = 0;
    return 0;
}

/* Writes or reads a box: rows of so many bytes, so many a plane. Memory and file have steps, in
 * bytes, from row to row and from plane to plane. Rows adjacent in the file go in one call.
 * On failure at and length say where. */
int benchio_raw_move_box(int fd, int32_t writes, int32_t direct, char *memory,
                         const int64_t memory_step[2], const int64_t file_step[2],
                         int64_t row_bytes, const int64_t rows[2], int64_t *at, int64_t *length)
{
    const int64_t first = *at, block = direct ? benchio_raw_alignment() : 1;
    struct run run;
    int error = 0;

    run.at = first;
    run.bytes = 0;
    run.parts = 0;
    for (int64_t i = 0; error == 0 && i <= rows[0] * rows[1]; i++) {
        const int64_t row = i % rows[0], plane = i / rows[0];
        const int64_t offset = first + row * file_step[0] + plane * file_step[1];
        char *from = memory + row * memory_step[0] + plane * memory_step[1];
        struct iovec *last = run.parts > 0 ? &run.part[run.parts - 1] : NULL;
        const int is_past_last = plane == rows[1], goes_on = offset == run.at + run.bytes;

        if (last != NULL && !is_past_last && goes_on
            && from == (char *)last->iov_base + last->iov_len) {
            last->iov_len += (size_t)row_bytes;
            run.bytes += row_bytes;
            continue;
        }
        if (last != NULL && (is_past_last || !goes_on || run.parts == IOV_MAX)) {
            *at = run.at;
            *length = run.bytes;
            error = run.at % block == 0 && run.bytes % block == 0 ? move_run(fd, writes, &run)
                                                                  : not_aligned;
            if (error == end_of_file)
                *at = run.at;
        }
        if (run.parts == 0)
            run.at = offset;
        run.part[run.parts].iov_base = from;
        run.part[run.parts++].iov_len = (size_t)row_bytes;
        run.bytes += row_bytes;
    }
    return error;
}

/* Reads so many bytes from any offset; where the file ends before, *end is its last byte's end. */
static int read_plainly(int fd, char *to, int64_t offset, int64_t bytes, int64_t *end)
{
    struct run run;
    int error;

    run.at = offset;
    run.parts = 1;
    run.part[0].iov_base = to;
    run.part[0].iov_len = (size_t)bytes;
    error = move_run(fd, 0, &run);
    *end = run.at;
    return error;
}

/* The same past the page cache: whole blocks, and what is asked for in them. They are read to where
 * that belongs, if it is as far from a block's begin in memory as in the file, and what is spare
 * on both sides has room for them. */
static int read_past_cache(int fd, char *to, int64_t spare, int64_t offset, int64_t bytes,
                           int64_t *end)
{
    const int64_t block = benchio_raw_alignment(), most = 8 << 20, stop = offset + bytes;
    const int64_t before = offset % block, behind = (block - stop % block) % block;
    const int fits = before <= spare && behind <= spare
        && (int64_t)((uintptr_t)to % (uintptr_t)block) == before;
    char *blocks = NULL;
    int error = fits ? 0 : posix_memalign((void **)&blocks, (size_t)block, (size_t)most);

    if (error != 0)
        return error;
    *end = offset;
    while (error == 0 && *end < stop) {
        const int64_t first = *end / block * block;
        const int64_t wanted = (stop - first + block - 1) / block * block;
        const ssize_t n = pread(fd, fits ? to + (first - offset) : blocks,
                                (size_t)(wanted < most ? wanted : most), first);
        const int64_t got = first + n < stop ? first + n : stop;

        if (n < 0) {
            error = errno == EINTR ? 0 : errno;
        } else if (got <= *end) {
            error = end_of_file;
            *end = first + n;
        } else {
            if (!fits)
                memcpy(to + (*end - offset), blocks + (*end - first), (size_t)(got - *end));
            *end = got;
        }
    }
    if (!fits)
        free(blocks);
    return error;
}

/* direct may become 0: a filesystem that took O_DIRECT at open may still refuse such a read. So many
 * bytes on both sides of where it goes are spare, and may change. */
int benchio_raw_read(int fd, int32_t *direct, char *to, int64_t spare, int64_t offset, int64_t bytes,
                     int64_t *end)
{
    if (*direct) {
        const int error = read_past_cache(fd, to, spare, offset, bytes, end);

        if (error != EINVAL)
            return error;
        *direct = 0;
        if (fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_DIRECT) != 0)
            return errno;
    }
    return read_plainly(fd, to, offset, bytes, end);
}

/* Of a part of a file, the bytes in this node's page cache; -1 where the kernel does not say, and
 * where there are none in it, but may be some in another cache. */
int64_t benchio_raw_resident(int fd, int64_t offset, int64_t bytes)
{
    const int64_t page = sysconf(_SC_PAGESIZE), window = (int64_t)1 << 30;
    int64_t resident = 0, stop = offset + bytes;
    unsigned char *is_there;
    struct stat st;

    if (fstat(fd, &st) != 0)
        return -1;
    if (stop > st.st_size)
        stop = st.st_size;
    is_there = malloc((size_t)(window / page));
    if (is_there == NULL)
        return -1;
    for (int64_t at = offset / page * page; at < stop && resident >= 0; at += window) {
        const size_t mapped = (size_t)(stop - at < window ? stop - at : window);
        void *map = mmap(NULL, mapped, PROT_READ, MAP_PRIVATE, fd, at);

        if (map == MAP_FAILED || mincore(map, mapped, is_there) != 0)
            resident = -1;
        for (int64_t i = 0; resident >= 0 && i < ((int64_t)mapped + page - 1) / page; i++) {
            const int64_t first = at + i * page, low = first > offset ? first : offset;
            const int64_t high = first + page < stop ? first + page : stop;

            resident += is_there[i] & 1 ? high - low : 0;
        }
        if (map != MAP_FAILED)
            munmap(map, mapped);
    }
    free(is_there);
    if (resident == 0 && bytes > 0 && is_cached_below(fd))
        resident = -1;
    return resident;
}

/* Asks the kernel to forget a file's pages; what is dirty stays, and begins to be written. */
int benchio_raw_drop_pages(int fd)
{
    return posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
}

/* The same of a whole file; of one that takes too long to look at, by samples all over it. */
static int64_t resident_of_all(int fd, int64_t size)
{
    enum { samples = 64 };
    const int64_t sample = (int64_t)16 << 20;
    int64_t resident = 0;

    if (size <= samples * sample)
        return benchio_raw_resident(fd, 0, size);
    for (int64_t i = 0; i < samples; i++) {
        const int64_t here = benchio_raw_resident(fd, i * (size / samples), sample);

        if (here < 0)
            return -1;
        resident += here;
    }
    return (int64_t)((double)resident / (double)(samples * sample) * (double)size);
}

/* The bytes of a file that this node has still to write, by the kernel's own count; -1 if it has
 * none, as before Linux 6.5, or counts no page of the file: an overlay's pages are those of another
 * file. */
static int64_t counted_dirty(int fd)
{
    enum { cachestat = 451 }; /* on every architecture; glibc has no name for it yet */
    struct {
        uint64_t offset, bytes; /* 0: to the end */
    } whole = {0, 0};
    struct {
        uint64_t there, dirty, in_writing, evicted, lately;
    } pages;

    if (syscall(cachestat, fd, &whole, &pages, 0) != 0 || pages.there == 0)
        return -1;
    return (int64_t)(pages.dirty + pages.in_writing) * sysconf(_SC_PAGESIZE);
}

/* The bytes of a file whose pages this node had not yet written when they were dropped just now; -1
 * where that cannot be known, as in memory, which has no storage below it. After a sync there are
 * none. A page may stay for other reasons than being dirty: the kernel's count is asked first, and
 * only if it has none is residency looked at. Pages then count as dirty if most of the file stayed,
 * and went once the kernel had written them, which dropping has made it begin. */
int64_t benchio_raw_unsynced(int fd)
{
    static int stay_for_ever; /* as they do where the filesystem cannot drop them: found out once */
    const struct timespec moment = {.tv_nsec = 10000000};
    struct stat st;
    int64_t dirty, stayed;

    if (is_in_memory(fd) || fstat(fd, &st) != 0)
        return -1;
    dirty = counted_dirty(fd);
    if (dirty >= 0)
        return dirty;
    stayed = resident_of_all(fd, st.st_size);
    if (stayed <= st.st_size / 128) /* so few say nothing, and are not waited for */
        return stayed;
    if (stayed <= st.st_size / 2)
        return -1;
    for (int moments = 0; moments < 100 && !stay_for_ever; moments++) {
        nanosleep(&moment, NULL);
        if (benchio_raw_drop_pages(fd) == 0 && resident_of_all(fd, st.st_size) < stayed)
            return stayed;
    }
    stay_for_ever = 1;
    return -1;
}
