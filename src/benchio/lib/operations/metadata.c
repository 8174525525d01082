/* What metadata.f90 does to the names of a rank, all of them in one call: what is to be timed is
 * the system's calls, and not the making of texts around them. */
#define _GNU_SOURCE

#include "benchio.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* As metadata.f90 numbers them. */
enum action { MKDIR = 1, CREATE, STAT, RENAME, READ, UNLINK, RMDIR, GONE, CLEAR };
enum fault { FINE, MISSING, OTHER_KIND, OTHER_SIZE, OTHER_CONTENT, STILL_THERE };
enum { MOST_WORDS = 4, RANK_DIGITS = 6, ITEM_DIGITS = 7, KINDS = 3 };

/* A directory, a file under its first name, and under its second. */
static const char kinds[] = "dfg";

/* Ranks and items that need more digits have them. */
static void name_of(char path[PATH_MAX], const char *directory, char kind, int32_t rank,
                    int64_t item)
{
    snprintf(path, PATH_MAX, "%s/%c%0*d.%0*lld", directory, kind, RANK_DIGITS, (int)rank,
             ITEM_DIGITS, (long long)item);
}

/* What the file of an item holds: 1 to 4 words, so that neighbours differ in size, and none is like
 * a word of another item, rank, round or run. Returns the bytes of it. */
static size_t content_of(uint64_t key, int64_t item, uint64_t words[MOST_WORDS])
{
    const struct content content = {.key = (int64_t)key, .kept_bits = UINT64_MAX};
    const int64_t bytes = (1 + item % MOST_WORDS) * (int64_t)sizeof words[0];

    benchio_fill(&content, item * MOST_WORDS, bytes, words);
    return (size_t)bytes;
}

static uint64_t hash_of(int kind, int64_t rank, int64_t item)
{
    return benchio_mixed((uint64_t)rank << 26 | (uint64_t)item << 2 | (uint64_t)kind);
}

/* The hashes of all names of each kind of a rank, by xor. */
void benchio_metadata_hashes(int32_t rank, int64_t items, uint64_t hashes[KINDS])
{
    for (int kind = 0; kind < KINDS; kind++) {
        hashes[kind] = 0;
        for (int64_t item = 0; item < items; item++)
            hashes[kind] ^= hash_of(kind, rank, item);
    }
}

static int create(const char *path, uint64_t key, int64_t item)
{
    uint64_t words[MOST_WORDS];
    size_t bytes = content_of(key, item, words);
    ssize_t written;
    int error = 0, fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

    if (fd < 0)
        return errno;
    written = write(fd, words, bytes);
    if (written != (ssize_t)bytes)
        error = written < 0 ? errno : EIO;
    if (close(fd) != 0 && error == 0)
        error = errno;
    return error;
}

static int look_at(const char *path, uint64_t key, int64_t item, int32_t *fault)
{
    uint64_t words[MOST_WORDS];
    struct stat st;

    if (stat(path, &st) != 0) {
        *fault = errno == ENOENT ? MISSING : FINE;
        return errno == ENOENT ? 0 : errno;
    }
    if (!S_ISREG(st.st_mode))
        *fault = OTHER_KIND;
    else if (st.st_size != (off_t)content_of(key, item, words))
        *fault = OTHER_SIZE;
    return 0;
}

static int read_back(const char *path, uint64_t key, int64_t item, int32_t *fault)
{
    uint64_t words[MOST_WORDS], found[MOST_WORDS + 1];
    size_t bytes = content_of(key, item, words);
    ssize_t got;
    int error = 0, fd = open(path, O_RDONLY | O_CLOEXEC);

    if (fd < 0) {
        *fault = errno == ENOENT ? MISSING : FINE;
        return errno == ENOENT ? 0 : errno;
    }
    got = read(fd, found, sizeof found);
    if (got < 0)
        error = errno;
    else if (got != (ssize_t)bytes)
        *fault = OTHER_SIZE;
    else if (memcmp(found, words, bytes) != 0)
        *fault = OTHER_CONTENT;
    if (close(fd) != 0 && error == 0)
        error = errno;
    return error;
}

/* The client of another node may believe in a name for a while, a second where FUSE has it. */
static int is_gone(const char *path, int32_t *fault)
{
    const struct timespec moment = {.tv_nsec = 10000000};
    struct stat st;

    for (int moments = 500; lstat(path, &st) == 0; moments--) {
        if (moments == 0) {
            *fault = STILL_THERE;
            return 0;
        }
        nanosleep(&moment, NULL);
    }
    return errno == ENOENT ? 0 : errno;
}

/* Does one thing to the items of a rank from *item to before end; kind is the name that it takes.
 * Stops at the first that fails or is not as it should be, and says in *item which it is. Returns 0
 * or errno. CLEAR goes on whatever it meets, and removes all names there may be. */
int benchio_do_to_names(int32_t action, char kind, const char *directory, int32_t rank,
                        int64_t *item, int64_t end, int64_t key, int32_t *fault)
{
    char path[PATH_MAX], other[PATH_MAX];
    int error = 0;

    *fault = FINE;
    for (; *item < end; ++*item) {
        name_of(path, directory, kind, rank, *item);
        switch (action) {
        case MKDIR:
            error = mkdir(path, 0700) == 0 ? 0 : errno;
            break;
        case CREATE:
            error = create(path, (uint64_t)key, *item);
            break;
        case STAT:
            error = look_at(path, (uint64_t)key, *item, fault);
            break;
        case RENAME:
            name_of(other, directory, kinds[2], rank, *item);
            error = rename(path, other) == 0 ? 0 : errno;
            break;
        case READ:
            error = read_back(path, (uint64_t)key, *item, fault);
            break;
        case UNLINK:
            error = unlink(path) == 0 ? 0 : errno;
            break;
        case RMDIR:
            error = rmdir(path) == 0 ? 0 : errno;
            break;
        case GONE:
            error = is_gone(path, fault);
            break;
        case CLEAR:
            rmdir(path);
            for (int i = 1; i < 3; i++) {
                name_of(other, directory, kinds[i], rank, *item);
                unlink(other);
            }
            break;
        default:
            error = EINVAL;
        }
        if (error != 0 || *fault != FINE)
            return error;
    }
    return 0;
}

/* The bytes that the files of so many items hold. */
int64_t benchio_metadata_bytes(int64_t items)
{
    uint64_t words[MOST_WORDS];
    int64_t bytes = 0;

    for (int64_t item = 0; item < items; item++)
        bytes += (int64_t)content_of(0, item, words);
    return bytes;
}

/* The number that a text begins with, in so many digits or as many more as it needs; -1: it does
 * not. The text goes on behind it. */
static int64_t number_at(const char **text, int digits)
{
    const char *start = *text;
    int64_t number = 0;

    while (**text >= '0' && **text <= '9' && *text - start < 18)
        number = 10 * number + (*(*text)++ - '0');
    return *text - start == digits || (*text - start > digits && *start != '0') ? number : -1;
}

/* Reads a directory whose names are of the ranks from first on: counts[kind] of them, with the xor
 * of their hashes; stranger is one that is nobody's, cut to size. Each name once has the right
 * number and the right xor, and nothing else has. To find the name that is wrong, `seen` has room
 * for those of `many` ranks, the first of which is first + from, and counts in
 * [kind][rank][item], to 2 at most, how often each is there. */
int benchio_metadata_list(const char *directory, int32_t first, int32_t ranks, int64_t items,
                          int32_t from, int32_t many, int8_t *seen, int64_t counts[KINDS],
                          uint64_t hashes[KINDS], char *stranger, int32_t size)
{
    DIR *open_directory = opendir(directory);
    const struct dirent *entry;
    int error;

    stranger[0] = '\0';
    memset(counts, 0, KINDS * sizeof counts[0]);
    memset(hashes, 0, KINDS * sizeof hashes[0]);
    if (open_directory == NULL)
        return errno;
    while (errno = 0, (entry = readdir(open_directory)) != NULL) {
        const char *name = entry->d_name, *at = name + 1, *kind_at = strchr(kinds, name[0]);
        const int kind = kind_at == NULL ? KINDS : (int)(kind_at - kinds);
        int64_t rank = -1, item = -1;

        if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
            continue;
        if (kind < KINDS)
            rank = number_at(&at, RANK_DIGITS) - first;
        if (rank >= 0 && *at++ == '.')
            item = number_at(&at, ITEM_DIGITS);
        if (rank < 0 || rank >= ranks || item < 0 || item >= items || *at != '\0') {
            snprintf(stranger, (size_t)size, "%s", name);
            continue;
        }
        counts[kind]++;
        hashes[kind] ^= hash_of(kind, rank + first, item);
        if (rank >= from && rank - from < many) {
            int8_t *times = &seen[(kind * (int64_t)many + rank - from) * items + item];

            if (*times < 2)
                ++*times;
        }
    }
    error = errno;
    closedir(open_directory);
    return error;
}

/* To stable storage: the content of the files first, then the names. */
int benchio_metadata_sync(const char *directory)
{
    int error, fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (fd < 0)
        return errno;
    error = syncfs(fd) == 0 ? benchio_sync_names(fd) : errno;
    close(fd);
    return error;
}
