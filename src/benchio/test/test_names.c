/* What benchio does to names, one by one, against files and errors that are not as they should be. */
#define _GNU_SOURCE

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "benchio.h"
#include "expect.h"

/* As metadata.c has them. */
enum { CREATE = 2, STAT = 3, READ = 5 };
enum { FINE, MISSING, OTHER_KIND, OTHER_SIZE, OTHER_CONTENT };

static char folder[] = "/tmp/benchio-names.XXXXXX";

/* The system's own calls, but for the errors that are asked for. */
static int close_error, readdir_error, sync_error, synced_names;

int close(int fd)
{
    int code = ((int (*)(int))dlsym(RTLD_NEXT, "close"))(fd);

    errno = close_error;
    return close_error == 0 ? code : -1;
}

struct dirent *readdir(DIR *directory)
{
    struct dirent *entry = ((struct dirent * (*)(DIR *)) dlsym(RTLD_NEXT, "readdir"))(directory);

    if (entry == NULL && readdir_error != 0)
        errno = readdir_error;
    return entry;
}

int fsync(int fd)
{
    struct stat st;

    synced_names += fstat(fd, &st) == 0 && S_ISDIR(st.st_mode);
    errno = sync_error;
    return sync_error == 0 ? 0 : -1;
}

/* What one thing, done to item 0 of rank 0, has returned, and what it has found. */
static int done(int action, char kind, int *found)
{
    int64_t item = 0;
    int32_t fault = FINE;
    int error = benchio_do_to_names(action, kind, folder, 0, &item, 1, 7, &fault);

    *found = fault;
    return error;
}

/* What a listing finds of the names of item 0 and 1 of ranks 0 to 1,000,000. */
static int64_t counts[3];
static uint64_t hashes[3];
static int8_t seen[6]; /* of one rank, the million-th */
static char stranger[64];

static int listed(void)
{
    memset(seen, 0, sizeof seen);
    return benchio_metadata_list(folder, 0, 1000001, 2, 1000000, 1, seen, counts, hashes, stranger,
                                 sizeof stranger);
}

static const char *path_of(const char *name)
{
    static char path[64];

    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static void make(const char *name)
{
    FILE *file = fopen(path_of(name), "w");

    expect(file != NULL && fclose(file) == 0, name);
}

int main(void)
{
    int found;
    uint64_t of_rank[2][3];

    expect(mkdtemp(folder) != NULL, "a folder");

    expect(done(STAT, 'f', &found) == 0 && found == MISSING, "a file that is missing");
    expect(done(CREATE, 'f', &found) == 0 && found == FINE, "a file is made");
    expect(done(STAT, 'f', &found) == 0 && found == FINE, "it is as its maker left it");
    expect(done(READ, 'f', &found) == 0 && found == FINE, "and so is its content");
    expect(done(CREATE, 'f', &found) == EEXIST, "it is not made twice");

    found = open(path_of("f000000.0000000"), O_WRONLY | O_APPEND);
    expect(found >= 0 && write(found, "", 1) == 1 && close(found) == 0, "a byte more");
    expect(done(STAT, 'f', &found) == 0 && found == OTHER_SIZE, "is seen in its size");
    expect(done(READ, 'f', &found) == 0 && found == OTHER_SIZE, "and when it is read");
    expect(unlink(path_of("f000000.0000000")) == 0, "it goes");

    expect(symlink("/dev/null", path_of("f000000.0000000")) == 0, "a device in its place");
    expect(done(STAT, 'f', &found) == 0 && found == OTHER_KIND, "is no regular file");
    expect(unlink(path_of("f000000.0000000")) == 0, "it goes, too");

    close_error = EDQUOT;
    expect(done(CREATE, 'f', &found) == EDQUOT, "a close that fails fails the making");
    expect(done(READ, 'f', &found) == EDQUOT, "and the reading");
    close_error = 0;

    make("f1000000.0000001");
    benchio_metadata_hashes(0, 1, of_rank[0]);
    benchio_metadata_hashes(1000000, 2, of_rank[1]);
    expect(listed() == 0 && counts[1] == 2 && counts[0] + counts[2] == 0, "files are listed");
    expect(seen[2] == 0 && seen[3] == 1, "one by one where asked for");
    expect(hashes[1] != 0 && hashes[1] != (of_rank[0][1] ^ of_rank[1][1]), "one is missing");
    make("f1000000.0000000");
    expect(listed() == 0 && hashes[1] == (of_rank[0][1] ^ of_rank[1][1]), "now all are there");
    expect(stranger[0] == '\0', "and nothing else");
    make("f0000000.0000000");
    expect(listed() == 0 && counts[1] == 3 && strcmp(stranger, "f0000000.0000000") == 0, "but this");
    for (const char **name = (const char *[]){"f1000000.0000001", "f1000000.0000000",
                                              "f0000000.0000000", NULL};
         *name != NULL; name++)
        expect(unlink(path_of(*name)) == 0, "they go");
    readdir_error = EIO;
    expect(benchio_remove_family(path_of("none"), ".part") == EIO, "what is not listed may be left");
    readdir_error = 0;
    make("a"), make("a.part1"), make("a.part2"), make("a.partial"), make("ab.part1"), make("a.other");
    expect(benchio_remove_family(path_of("a"), ".part1") == 0, "a file goes with what has its mark");
    expect(unlink(path_of("a")) != 0 && unlink(path_of("a.part1")) != 0, "both are gone");
    expect(benchio_remove_family(path_of("a.part2"), "") == 0, "without a mark it goes alone");
    expect(unlink(path_of("a.partial")) == 0 && unlink(path_of("ab.part1")) == 0
               && unlink(path_of("a.other")) == 0, "others stay");
    expect(mkdir(path_of("d"), 0700) == 0, "there is a directory");
    make("d/a"), make("d/b");
    expect(benchio_remove_family(path_of("d"), "/") == 0, "it goes with the files in it");
    expect(rmdir(path_of("d")) != 0 && errno == ENOENT, "it is gone");
    readdir_error = EIO;
    expect(listed() == EIO, "a list that ends before its end is an error");

    expect(benchio_metadata_sync(folder) == 0 && synced_names == 1, "the names are synced");
    sync_error = EIO;
    expect(benchio_metadata_sync(folder) == EIO, "and that may fail");
    sync_error = EINVAL;
    expect(benchio_metadata_sync(folder) == 0, "where there is no such thing, it cannot");

    expect(unlink(path_of("f000000.0000000")) == 0 && rmdir(folder) == 0, "nothing is left");
    return 0;
}
