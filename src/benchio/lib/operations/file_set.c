/* A set of many files, as learning.f90 has it: samples of one size, a tree of small files like that
 * of an installed Python environment, or a checkpoint. All calls of a rank are in one function, so
 * that what is timed is the system's calls, and not the making of texts around them. */
#define _GNU_SOURCE

#include "benchio.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum fault { FINE, MISSING, OTHER_SIZE, OTHER_CONTENT };
enum action { WRITE = 1, FORGET, CONFIRM, UNLINK, MAKE, OPEN, PUT, FSYNC, CLOSE };
enum part { IN_STAT, IN_OPEN, IN_READ, IN_CLOSE, IN_CHECK, PARTS };

/* Files of a tree's lowest directories, directories of the higher ones. */
enum { LEAF = 16 };

/* Few large files stay open while samples are read; more are opened for each sample. */
enum { MOST_OPEN = 256 };

/* Bytes that are written, or confirmed, at a time: words of the pattern. */
enum { WINDOW = 1 << 20 };

static int is_tree(const struct file_set *set)
{
    return set->sample_bytes == 0;
}

/* Files that are made in one directory by one rank. */
static int64_t unit_of(const struct file_set *set)
{
    return is_tree(set) ? LEAF : 1;
}

/* The bytes of a file. Those of a tree: 80 bytes to 180 KiB, half of them at most 3840 bytes. The
 * number of ones among 12 bits is normally distributed, nearly, and the size doubles with each. */
int64_t benchio_set_file_bytes(const struct file_set *set, int64_t file)
{
    const int64_t rest = set->samples - file * set->per_file;

    if (set->shared > 0)
        return (file == set->files - 1 ? set->shared : 1) * set->sample_bytes;
    if (is_tree(set))
        return ((int64_t)5 << __builtin_popcountll((uint64_t)file & 4095)) * (16 - file % 8);
    return (rest < set->per_file ? rest : set->per_file) * set->sample_bytes;
}

/* All bytes of the files. */
int64_t benchio_set_bytes(const struct file_set *set)
{
    int64_t bytes = 0;

    if (!is_tree(set))
        return set->samples * set->sample_bytes;
    for (int64_t file = 0; file < set->files; file++)
        bytes += benchio_set_file_bytes(set, file);
    return bytes;
}

/* The bytes of a sample: the file, its place there, and how many. */
static int64_t place_of(const struct file_set *set, int64_t sample, int64_t *file, int64_t *offset)
{
    *file = sample / set->per_file;
    *offset = sample % set->per_file * set->sample_bytes;
    if (set->shared > 0 && *file >= set->files - 1) {
        *file = set->files - 1;
        *offset = (sample - *file) * set->sample_bytes;
    }
    return is_tree(set) ? benchio_set_file_bytes(set, sample) : set->sample_bytes;
}

/* The file that has a sample. */
int64_t benchio_set_file_of(const struct file_set *set, int64_t sample)
{
    int64_t file, offset;

    place_of(set, sample, &file, &offset);
    return file;
}

/* The most bytes that a sample has. */
int64_t benchio_set_largest(const struct file_set *set)
{
    return is_tree(set) ? ((int64_t)5 << 12) * 16 : set->sample_bytes;
}

/* The directories of a tree's file, cut off after so many levels, and the file with three. */
static void path_of(char path[PATH_MAX], const struct file_set *set, const char *directory,
                    int64_t file, int levels)
{
    const int64_t leaf = file / LEAF;
    int at = snprintf(path, PATH_MAX, "%s", directory);

    for (int level = 1; is_tree(set) && level <= levels && at < PATH_MAX; level++)
        at += snprintf(path + at, (size_t)(PATH_MAX - at), "/d%lld",
                       (long long)(level == 1 ? leaf / LEAF / LEAF
                                              : level == 2 ? leaf / LEAF % LEAF : leaf % LEAF));
    if (levels == 3 && at < PATH_MAX)
        snprintf(path + at, (size_t)(PATH_MAX - at), "/%c%07lld", is_tree(set) ? 'f' : 's',
                 (long long)file);
}

/* The same for Fortran, in PATH_MAX characters. */
void benchio_set_path(const struct file_set *set, const char *directory, int64_t file, char *path)
{
    path_of(path, set, directory, file, 3);
}

static void leaf_of(char path[PATH_MAX], const struct file_set *set, const char *directory,
                    int64_t file)
{
    path_of(path, set, directory, file, 3);
    *strrchr(path, '/') = '\0';
}

/* The content of a set: a word of a file has the index that it would have if the files were one, and
 * all of them had room for the largest. */
static struct content content_of(const struct file_set *set)
{
    return (struct content){.key = set->key, .kept_bits = UINT64_MAX};
}

static int64_t index_of(const struct file_set *set, int64_t file, int64_t offset)
{
    return file * ((set->per_file * benchio_set_largest(set) + 7) / 8) + offset / 8;
}

/* What a file holds from a word of 8 bytes on: no word is that of another place of the set, but by
 * chance. */
void benchio_set_fill(const struct file_set *set, int64_t file, int64_t offset, int64_t bytes,
                      void *to)
{
    const struct content content = content_of(set);

    benchio_fill(&content, index_of(set, file, offset), bytes, to);
}

/* The sample at a place of the order in which all are read. Files of a tree are read one after the
 * other, as every process of a program does it; samples in an order that the key chooses, each
 * once. What a rank has written of a checkpoint is read in its order, and the last rank is followed
 * by the first. */
int64_t benchio_set_sample(const struct file_set *set, int64_t order, int64_t place)
{
    if (set->shared > 0) {
        const int64_t of_rank = set->samples / set->shared;

        place %= set->samples;
        return place % of_rank * set->shared + place / of_rank;
    }
    if (is_tree(set))
        return place;
    return benchio_permuted(place, set->samples, order);
}

/* The bytes of a file that are a rank's, of this unit: all, but of a shared file. */
static int64_t part_of(const struct file_set *set, int64_t unit, int64_t file, int64_t *offset)
{
    *offset = 0;
    return set->shared > 0 ? place_of(set, unit, &file, offset)
                           : benchio_set_file_bytes(set, file);
}

static int64_t units_of(const struct file_set *set)
{
    return set->shared > 0 ? set->samples : set->files;
}

static int64_t first_of(const struct file_set *set, int64_t unit)
{
    return set->shared > 0 ? benchio_set_file_of(set, unit) : unit * unit_of(set);
}

static int make_parents(const struct file_set *set, const char *directory, int64_t file)
{
    char path[PATH_MAX];

    for (int level = 1; level <= 2; level++) {
        path_of(path, set, directory, file, level);
        if (mkdir(path, 0700) != 0 && errno != EEXIST)
            return errno;
    }
    leaf_of(path, set, directory, file);
    return mkdir(path, 0700) == 0 ? 0 : errno;
}

static int write_file(const struct file_set *set, const char *path, int64_t file,
                      unsigned char *window)
{
    const int64_t bytes = benchio_set_file_bytes(set, file);
    int error = 0, fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    int64_t at = 0;

    if (fd < 0)
        return errno;
    while (error == 0 && at < bytes) {
        const int64_t most = WINDOW - at % WINDOW, length = bytes - at < most ? bytes - at : most;
        ssize_t written;

        if (at % WINDOW == 0)
            benchio_set_fill(set, file, at, length, window);
        written = write(fd, window + at % WINDOW, (size_t)length);
        if (written < 0 && errno != EINTR)
            error = errno;
        at += written > 0 ? written : 0;
    }
    if (error == 0 && !is_tree(set)) /* small files are synced all together */
        error = benchio_raw_sync(fd);
    if (close(fd) != 0 && error == 0)
        error = errno;
    return error;
}

/* Reads so many bytes at a place: 0, errno, or a fault. */
static int read_at(int fd, unsigned char *to, int64_t bytes, int64_t offset, int32_t *fault)
{
    int64_t done = 0;

    while (done < bytes) {
        const ssize_t n = pread(fd, to + done, (size_t)(bytes - done), offset + done);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return errno;
        if (n == 0) {
            *fault = OTHER_SIZE;
            return 0;
        }
        done += n;
    }
    return 0;
}

/* Adds bytes; once they are not known, -1, they stay so. */
static void add(int64_t *bytes, int64_t more)
{
    *bytes = *bytes < 0 || more < 0 ? -1 : *bytes + more;
}

/* Asks the kernel of this node to forget a file. Counts the bytes that stay, and those that the
 * sync has left to be written. */
static int forget(const char *path, int64_t offset, int64_t bytes, struct sight *sight)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    int error;

    if (fd < 0)
        return errno == ENOENT ? 0 : errno; /* who reads it will say so */
    error = benchio_raw_drop_pages(fd);
    add(&sight->unsynced, benchio_raw_unsynced(fd));
    add(&sight->in_memory, benchio_raw_resident(fd, offset, bytes));
    close(fd);
    return error;
}

/* The witness: confirms every byte of a part of a file, and that the file has its size. Counts the
 * bytes that were in memory when they were to be read. */
static int confirm(const struct file_set *set, const char *path, int64_t file, int64_t offset,
                   int64_t bytes, unsigned char *window, struct sight *sight)
{
    const struct content content = content_of(set);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat st;
    int error = 0;

    if (fd < 0 || fstat(fd, &st) != 0) {
        error = errno;
    } else if (st.st_size != benchio_set_file_bytes(set, file)) {
        sight->fault = OTHER_SIZE;
    } else {
        error = posix_fadvise(fd, offset, bytes, POSIX_FADV_DONTNEED);
        add(&sight->in_memory, benchio_raw_resident(fd, offset, bytes));
    }
    for (int64_t at = 0; error == 0 && sight->fault == FINE && at < bytes; at += WINDOW) {
        const int64_t length = bytes - at < WINDOW ? bytes - at : WINDOW;

        int64_t right;

        error = read_at(fd, window, length, offset + at, &sight->fault);
        if (error != 0 || sight->fault != FINE)
            break;
        right = benchio_right_bytes(&content, index_of(set, file, offset + at), length, window, 0);
        if (right < length) {
            sight->fault = OTHER_CONTENT;
            sight->byte = offset + at + right;
        }
        sight->confirmed += length;
    }
    if (fd >= 0)
        close(fd);
    if (error == ENOENT)
        sight->fault = MISSING;
    return error == ENOENT ? 0 : error;
}

/* Removes a file, and its directory once it is the last there. */
static int take_away(const struct file_set *set, char *path, int64_t file)
{
    const int error = unlink(path) == 0 ? 0 : errno;

    if (is_tree(set) && (file % LEAF == LEAF - 1 || file == set->files - 1)) {
        *strrchr(path, '/') = '\0';
        rmdir(path); /* else the last one tells */
    }
    return error;
}

/* Opens a file of a checkpoint, and makes it: a shard must not be there yet. */
static int open_file(const char *path, int makes, int is_shared, int *fd)
{
    const int how = !makes ? 0 : is_shared ? O_CREAT : O_CREAT | O_EXCL;

    *fd = open(path, O_WRONLY | O_CLOEXEC | how, 0600);
    return *fd < 0 ? errno : 0;
}

static int put(int fd, const unsigned char *state, int64_t bytes, int64_t offset)
{
    for (int64_t done = 0; done < bytes;) {
        const ssize_t n = pwrite(fd, state + done, (size_t)(bytes - done), offset + done);

        if (n < 0 && errno != EINTR)
            return errno;
        done += n > 0 ? n : 0;
    }
    return 0;
}

/* Each of a rank's files: those of the units from, from + step, and so on. Of a checkpoint, a unit
 * is a sample: the last of each rank is a part of the shared file. */
#define FOR_EACH_FILE(set, from, step, unit, file) \
    for (int64_t unit = (from); unit * unit_of(set) < units_of(set); unit += (step)) \
        for (int64_t file = first_of(set, unit); \
             file < (set)->files && file < (unit + 1) * unit_of(set); file++)

/* What a rank has in memory of a checkpoint: its shards, and then its part of the shared file. */
void benchio_set_make_state(const struct file_set *set, int64_t rank, unsigned char *state)
{
    int64_t offset;

    FOR_EACH_FILE(set, rank, set->shared, unit, file) {
        part_of(set, unit, file, &offset);
        benchio_set_fill(set, file, offset, set->sample_bytes, state);
        state += set->sample_bytes;
    }
}

/* Does one thing to each of a rank's files; fds and state are those of a checkpoint. Returns the
 * first errno. At that it stops, or at the first fault, which sight names, or once the run has to
 * end, which the next agreement of the ranks says; but it removes and closes all. */
int benchio_set_act(int32_t action, const struct file_set *set, const char *directory, int64_t from,
                    int64_t step, int *fds, unsigned char *state, struct sight *sight)
{
    const int is_for_all = action == UNLINK || action == CLOSE;
    unsigned char *window = malloc(WINDOW);
    char path[PATH_MAX];
    int first = window == NULL ? ENOMEM : 0;

    *sight = (struct sight){.byte = -1};
    FOR_EACH_FILE(set, from, step, unit, file) {
        int64_t offset;
        const int64_t bytes = part_of(set, unit, file, &offset);
        int error = 0;

        if (window == NULL || sight->fault != FINE
            || (!is_for_all && (first != 0 || benchio_end_due(0, NULL, 0) != 0)))
            break;
        path_of(path, set, directory, file, 3);
        switch (action) {
        case WRITE:
            if (is_tree(set) && file % LEAF == 0)
                error = make_parents(set, directory, file);
            if (error == 0)
                error = write_file(set, path, file, window);
            break;
        case FORGET:
            error = forget(path, offset, bytes, sight);
            break;
        case CONFIRM:
            error = confirm(set, path, file, offset, bytes, window, sight);
            break;
        case UNLINK:
            if (unit <= file) /* the first rank removes what all share */
                error = take_away(set, path, file);
            break;
        case MAKE:
        case OPEN:
            error = open_file(path, action == MAKE, file == set->files - 1, fds++);
            break;
        case PUT:
            error = put(*fds++, state, bytes, offset);
            state += bytes;
            break;
        case FSYNC:
            error = benchio_raw_sync(*fds++);
            break;
        case CLOSE:
            error = *fds >= 0 && close(*fds) != 0 ? errno : 0;
            *fds++ = -1;
            break;
        default:
            error = EINVAL;
        }
        if (first == 0)
            sight->file = file;
        first = first == 0 ? error : first;
    }
    free(window);
    return first;
}

/* Removes the directories of a tree that are empty, and the set's. */
int benchio_set_remove_directories(const struct file_set *set, const char *directory)
{
    char path[PATH_MAX];

    for (int level = 2; is_tree(set) && level >= 1; level--)
        for (int64_t file = 0; file < set->files; file += level == 2 ? LEAF * LEAF
                                                                     : LEAF * LEAF * LEAF) {
            path_of(path, set, directory, file, level);
            rmdir(path);
        }
    return rmdir(directory) == 0 ? 0 : errno;
}

/* The seconds since then go to a part. */
static void spend(double seconds[PARTS], enum part part, double *since)
{
    const double now = benchio_seconds();

    seconds[part] += now - *since;
    *since = now;
}

/* What is timed: reads the samples at the places from `from` to before `to`, and notes a digest of
 * each, to be compared later. The buffer has room for the largest. Stops at the first that fails or
 * is not as it should be, which is at *place. */
int benchio_set_read(const struct file_set *set, const char *directory, int64_t order, int64_t from,
                     int64_t to, unsigned char *buffer, uint64_t *digests, double seconds[5],
                     int64_t *place, int32_t *fault)
{
    const int stays_open = set->per_file > 1 && set->files <= MOST_OPEN;
    int error = 0, opened[MOST_OPEN];
    char path[PATH_MAX];
    double since = benchio_seconds();

    *fault = FINE;
    memset(opened, -1, sizeof opened);
    for (*place = from; *place < to && benchio_end_due(0, NULL, 0) == 0; ++*place) {
        int64_t file, offset, sample = benchio_set_sample(set, order, *place);
        const int64_t bytes = place_of(set, sample, &file, &offset);
        int fd = stays_open ? opened[file] : -1;
        struct stat st;

        path_of(path, set, directory, file, 3);
        if (is_tree(set)) {
            if (stat(path, &st) != 0)
                error = errno;
            else if (st.st_size != bytes)
                *fault = OTHER_SIZE;
            spend(seconds, IN_STAT, &since);
        }
        if (error == 0 && *fault == FINE && fd < 0) {
            fd = open(path, O_RDONLY | O_CLOEXEC);
            error = fd < 0 ? errno : 0;
            spend(seconds, IN_OPEN, &since);
        }
        if (error == 0 && *fault == FINE) {
            error = read_at(fd, buffer, bytes, offset, fault);
            spend(seconds, IN_READ, &since);
        }
        if (stays_open) {
            opened[file] = fd;
        } else if (fd >= 0) {
            if (close(fd) != 0 && error == 0)
                error = errno;
            spend(seconds, IN_CLOSE, &since);
        }
        if (error == ENOENT) {
            *fault = MISSING;
            error = 0;
        }
        if (error != 0 || *fault != FINE)
            break;
        digests[*place - from] = benchio_number_of(buffer, bytes);
        spend(seconds, IN_CHECK, &since);
    }
    for (int file = 0; stays_open && file < set->files; file++)
        if (opened[file] >= 0 && close(opened[file]) != 0 && error == 0)
            error = errno;
    spend(seconds, IN_CLOSE, &since);
    return error;
}

/* A small number for each sample: sums of them tell which samples were read, and how often. */
static int64_t mark_of(const struct file_set *set, int64_t sample)
{
    return (int64_t)(benchio_mixed((uint64_t)set->key << 32 ^ (uint64_t)sample) >> 33);
}

/* The marks of the samples `from` to before `to`, together. */
int64_t benchio_set_marks(const struct file_set *set, int64_t from, int64_t to)
{
    int64_t marks = 0;

    for (int64_t sample = from; sample < to; sample++)
        marks += mark_of(set, sample);
    return marks;
}

/* Compares what was read with what the samples hold. Returns FINE, or the fault of that at *place.
 * Adds up the marks of the samples. */
int benchio_set_compare(const struct file_set *set, int64_t order, int64_t from, int64_t to,
                        unsigned char *buffer, const uint64_t *digests, int64_t *place,
                        int64_t *marks)
{
    *marks = 0;
    for (*place = from; *place < to; ++*place) {
        int64_t file, offset, sample = benchio_set_sample(set, order, *place);
        const int64_t bytes = place_of(set, sample, &file, &offset);

        benchio_set_fill(set, file, offset, bytes, buffer);
        if (benchio_number_of(buffer, bytes) != digests[*place - from])
            return OTHER_CONTENT;
        *marks += mark_of(set, sample);
    }
    return FINE;
}

/* Reads a file once more, and finds its first byte that is not as it was written; -1: none. */
int64_t benchio_set_difference(const struct file_set *set, const char *directory, int64_t file)
{
    unsigned char *window = malloc(WINDOW);
    struct sight sight = {.byte = -1};
    char path[PATH_MAX];

    path_of(path, set, directory, file, 3);
    if (window != NULL)
        confirm(set, path, file, 0, benchio_set_file_bytes(set, file), window, &sight);
    free(window);
    return sight.byte;
}
