/* Reads past the end of a file, and pages that a sync has left. */
#define _GNU_SOURCE

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/vfs.h>
#include <stdarg.h>
#include <unistd.h>

#include "benchio.h"
#include "expect.h"

enum { PAGES = 256, PAGE = 4096, END_OF_FILE = -1, EXT4 = 0xef53 };

static const int64_t LARGE = (int64_t)1 << 34;

/* What the kernel says of the pages: how many are there at first, and after so many drops none. */
static int first_pages, drops_left, filesystem_type;
static int others_drop; /* when the kernel's count is asked for */
static int64_t looked_at; /* bytes */

int fstatfs(int fd, struct statfs *filesystem)
{
    int code = ((int (*)(int, struct statfs *))dlsym(RTLD_NEXT, "fstatfs"))(fd, filesystem);

    filesystem->f_type = filesystem_type;
    return code;
}

/* The kernel's own count of pages that are there, dirty and being written; none: it does not count. */
static const uint64_t *page_counts;

long syscall(long number, ...)
{
    va_list arguments;

    (void)number;
    if (others_drop)
        drops_left = 0;
    if (page_counts == NULL) {
        errno = ENOSYS;
        return -1;
    }
    va_start(arguments, number);
    (void)va_arg(arguments, int);
    (void)va_arg(arguments, void *);
    memcpy(va_arg(arguments, void *), page_counts, 5 * sizeof *page_counts);
    va_end(arguments);
    return 0;
}

int posix_fadvise(int fd, off_t offset, off_t bytes, int advice)
{
    (void)fd, (void)offset, (void)bytes, (void)advice;
    drops_left--;
    return 0;
}

int mincore(void *pages, size_t bytes, unsigned char *are_there)
{
    size_t number = (bytes + PAGE - 1) / PAGE;

    (void)pages;
    looked_at += (int64_t)bytes;
    for (size_t i = 0; i < number; i++)
        are_there[i] = drops_left > 0 && (int)i < first_pages;
    return 0;
}

static int64_t unsynced(int fd, int pages, int drops, int type)
{
    first_pages = pages;
    drops_left = drops;
    filesystem_type = type;
    looked_at = 0;
    return benchio_raw_unsynced(fd);
}

int main(void)
{
    static char block[PAGE], to[2 * PAGE];
    char name[] = "/tmp/benchio-raw.XXXXXX", path[64];
    int fd = mkstemp(name), again;
    int32_t direct;
    int64_t end;

    alarm(20); /* a read that does not end */
    expect(fd >= 0 && unlink(name) == 0, "a file");
    memset(block, 'x', sizeof block);
    for (int i = 0; i < PAGES; i++)
        expect(write(fd, block, sizeof block) == PAGE, "of many pages");

    for (int32_t past_cache = 0; past_cache < 2; past_cache++) {
        direct = past_cache;
        expect(benchio_raw_read(fd, &direct, to, 0, (PAGES - 2) * PAGE, 2 * PAGE, &end) == 0
                   && direct == past_cache && end == PAGES * PAGE && memcmp(to, block, PAGE) == 0,
               "its end is read");
        expect(benchio_raw_read(fd, &direct, to, 0, (PAGES - 1) * PAGE, 2 * PAGE, &end) == END_OF_FILE
                   && end == PAGES * PAGE,
               "and that there is no more");
    }

    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    for (int32_t writes = 0; writes < 2; writes++) {
        filesystem_type = 0x2fc12fc1;
        direct = 1;
        expect(benchio_raw_open(path, writes, 0, &direct, &again) == 0 && direct == writes,
               "O_DIRECT is not believed of ZFS where it reads");
        close(again);
    }
    drops_left = first_pages = 1000;
    expect(benchio_raw_resident(fd, 0, PAGES * PAGE) == PAGES * PAGE, "pages that are there count");
    first_pages = 0;
    expect(benchio_raw_resident(fd, 0, PAGES * PAGE) == -1, "and without any nobody knows of ZFS");
    filesystem_type = EXT4;
    expect(benchio_raw_resident(fd, 0, PAGES * PAGE) == 0, "where they are all the cache");

    expect(unsynced(fd, 0, 1000, EXT4) == 0, "what has been written leaves no page");
    expect(unsynced(fd, 1, 1000, EXT4) == PAGE, "few pages that stay are not waited for");
    expect(unsynced(fd, PAGES, 3, EXT4) == PAGES * PAGE, "what was dirty stays until it is written");
    expect(unsynced(fd, PAGES / 2, 3, EXT4) == -1, "but if only some stay, nobody knows");
    expect(unsynced(fd, PAGES, 3, 0x01021994) == -1, "and memory has nothing below it");
    page_counts = (const uint64_t[5]){PAGES, 0, 0, 0, 0};
    expect(unsynced(fd, PAGES, 3, EXT4) == 0, "unless the kernel counts: they were clean");
    page_counts = (const uint64_t[5]){PAGES, 1, 2, 0, 0};
    expect(unsynced(fd, PAGES / 2, 3, EXT4) == 3 * PAGE, "or dirty, or being written");
    page_counts = (const uint64_t[5]){0, 0, 0, 0, 0};
    expect(unsynced(fd, PAGES, 3, EXT4) == PAGES * PAGE, "of the pages of an overlay it has no count");
    others_drop = 1;
    expect(unsynced(fd, PAGES, 3, EXT4) == 0, "pages that another process has just dropped were clean");
    others_drop = 0;
    page_counts = NULL;

    expect(ftruncate(fd, LARGE) == 0, "a large file");
    expect(unsynced(fd, 1 << 30, 1, EXT4) == LARGE && looked_at < LARGE / 2, "is looked at in parts");

    expect(ftruncate(fd, PAGES * PAGE) == 0, "a file of which all pages stay");
    expect(unsynced(fd, PAGES, 1000, EXT4) == -1, "what stays for ever was not dirty");
    expect(unsynced(fd, PAGES, 1, EXT4) == -1, "and is not waited for again");
    return 0;
}
