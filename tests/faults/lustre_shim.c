/* A stand-in for Lustre, for tests on machines without one, loaded with LD_PRELOAD; never part of
 * benchio. It shows that benchio asks and judges; what Lustre answers was recorded of a real one,
 * in tests/data/lustre, where the counts, sizes and OSTs of plain layouts are put in.
 *
 * To benchio itself, not to the libraries it calls, every filesystem is Lustre with OSTs 0 to 3. A
 * file has the layout that the stand-in for lfs beside this file has noted in LUSTRE_STATE for its
 * directory, one without such a note the recorded default. Instead,
 *   LUSTRE_LAYOUT=NAME      every file has the recorded layout xattr-file-NAME; none: it has none;
 *                           garbage: nobody can decode it
 *   LUSTRE_STRIPING         "count size offset": every file is plain, whatever was asked for
 *   LUSTRE_OF=END           these two are of files alone whose path ends so
 *   LUSTRE_INACTIVE=N       OST N takes no new files: another one does, silently
 * LUSTRE_FULL is an OST without room, and LUSTRE_DEAD one that does not answer: a write into a stripe
 * on it fails, or never ends. A directory is on the MDT that lfs mkdir has noted, or on LUSTRE_MDT,
 * or on 0. LUSTRE_MOUNTS is another mount table, and
 * with LUSTRE_MAGIC statfs says another filesystem. With LUSTRE_RANKS=N each N ranks say that they
 * are on a host of their own. */
#include "interpose.h"

#include <sys/ioctl.h>
#include <sys/xattr.h>

enum { OSTS = 4, LONGEST = PATH_MAX };

/* What lfs has noted of a directory. */
struct note {
    char recorded[32]; /* name of a recorded layout; empty: plain */
    char pool[16];
    unsigned count, size, offset;
    int mdt;
};

/* MPI libraries choose a driver by statfs, and may have none for Lustre. */
static int asked_by_program(void *caller)
{
    Dl_info info;

    return dladdr(caller, &info) != 0 && strcmp(info.dli_fname, program_invocation_name) == 0;
}

static const char *setting(const char *name, const char *otherwise)
{
    const char *value = getenv(name);

    return value == NULL ? otherwise : value;
}

int statfs(const char *path, struct statfs *filesystem)
{
    int code = NEXT(statfs)(path, filesystem);

    if (code == 0 && asked_by_program(__builtin_return_address(0)))
        filesystem->f_type = (__typeof__(filesystem->f_type))strtol(
            setting("LUSTRE_MAGIC", "0x0BD00BD0"), NULL, 16);
    return code;
}

FILE *fopen(const char *name, const char *mode)
{
    const int is_table = strcmp(name, "/proc/self/mountinfo") == 0;

    return NEXT(fopen)(is_table ? setting("LUSTRE_MOUNTS", name) : name, mode);
}

/* The last note of a kind on this directory, or on the one that holds this path; 0: there is none. */
static int noted(const char *path, const char *kind, char text[LONGEST])
{
    const char *state = getenv("LUSTRE_STATE");
    char line[LONGEST], directory[LONGEST], of[16];
    FILE *notes = state == NULL ? NULL : fopen(state, "r");
    int found = 0, begin;

    while (notes != NULL && fgets(line, sizeof line, notes) != NULL) {
        size_t length;

        line[strcspn(line, "\n")] = '\0';
        if (sscanf(line, "%s %15s %n", directory, of, &begin) != 2 || strcmp(of, kind) != 0)
            continue;
        length = strlen(directory);
        if (strncmp(path, directory, length) == 0
            && (path[length] == '\0'
                || (path[length] == '/' && strchr(path + length + 1, '/') == NULL
                    && strcmp(kind, "own") != 0))) {
            strcpy(text, line + begin);
            found = 1;
        }
    }
    if (notes != NULL)
        fclose(notes);
    return found;
}

static struct note note_of(const char *path)
{
    const char *end = setting("LUSTRE_OF", "");
    const int is_odd = strlen(path) >= strlen(end)
                       && strcmp(path + strlen(path) - strlen(end), end) == 0;
    const char *wanted = is_odd ? getenv("LUSTRE_STRIPING") : NULL;
    struct note note = {.recorded = "def", .mdt = atoi(setting("LUSTRE_MDT", "0"))};
    char text[LONGEST] = "0";

    if (noted(path, "mdt", text))
        note.mdt = atoi(text);
    if (strstr(path, "/metadata") != NULL) /* a filesystem that spreads directories */
        note.mdt = atoi(setting("LUSTRE_MDT_BELOW", text));
    snprintf(note.recorded, sizeof note.recorded, "%s",
             is_odd ? setting("LUSTRE_LAYOUT", "def") : "def");
    if (wanted == NULL && noted(path, "recorded", text))
        snprintf(note.recorded, sizeof note.recorded, "%.31s", text);
    if (wanted == NULL && noted(path, "plain", text))
        wanted = text;
    if (wanted != NULL
        && sscanf(wanted, "%u %u %u %15s", &note.count, &note.size, &note.offset, note.pool) >= 3)
        note.recorded[0] = '\0';
    return note;
}

/* The bytes that getfattr has said of a recorded layout. */
static size_t recorded(const char *kind, const char *name, unsigned char *bytes, size_t size)
{
    const char *digits = NULL, *slash = strrchr(__FILE__, '/');
    char line[LONGEST], path[LONGEST];
    unsigned byte;
    size_t length = 0;
    FILE *file;

    snprintf(path, sizeof path, "%.*s/../data/lustre/xattr-%s-%s.txt", (int)(slash - __FILE__),
             __FILE__, kind, name);
    file = fopen(path, "r");
    while (file != NULL && digits == NULL && fgets(line, sizeof line, file) != NULL)
        if ((digits = strstr(line, "lustre.lov=0x")) != NULL)
            digits += strlen("lustre.lov=0x");
    if (file != NULL)
        fclose(file);
    for (; digits != NULL && length < size && sscanf(digits, "%2x", &byte) == 1; digits += 2)
        bytes[length++] = (unsigned char)byte;
    return length;
}

static void put(unsigned char *at, uint32_t number, int bytes)
{
    for (int i = 0; i < bytes; i++)
        at[i] = (unsigned char)(number >> 8 * i);
}

/* A plain file's layout: that of the recorded one on four OSTs, or in a pool, with other numbers.
 * Returns its length, and its first OST. */
static size_t plain(const struct note *note, unsigned char *bytes, size_t size, unsigned *first)
{
    const int inactive = atoi(setting("LUSTRE_INACTIVE", "-1"));
    const int in_pool = note->pool[0] != '\0' && strcmp(note->pool, "-") != 0;
    const size_t header = in_pool ? 48 : 32, stripe = 24;
    unsigned char model[512];
    const unsigned osts = in_pool ? 2 : OSTS;
    unsigned ost = note->offset, count = 0;

    recorded("file", "c4", model, sizeof model);
    recorded("file", in_pool ? "pool" : "c4", bytes, size);
    for (unsigned i = 0; i < osts && count < (note->count ? note->count : osts); i++, ost++) {
        if ((int)(ost % OSTS) == inactive)
            continue;
        memcpy(bytes + header + stripe * count, model + 32, stripe);
        put(bytes + header + stripe * count + 20, ost % OSTS, 4);
        if (count++ == 0)
            *first = ost % OSTS;
    }
    put(bytes + 24, note->size, 4);
    put(bytes + 28, getenv("LUSTRE_STRIPING") == NULL ? count : note->count, 2);
    return header + stripe * count;
}

static size_t layout_of(const char *path, unsigned char *bytes, size_t size, unsigned *first)
{
    const struct note note = note_of(path);
    char unused[LONGEST];
    size_t length;

    *first = 0;
    if (noted(path, "own", unused)) { /* the directory itself, which has no objects */
        if (note.recorded[0] != '\0')
            return recorded("dir", note.recorded, bytes, size);
        length = recorded("dir", strcmp(note.pool, "-") == 0 ? "c1" : "pool", bytes, size);
        put(bytes + 24, note.size, 4);
        put(bytes + 28, note.count ? note.count : 0xffff, 2);
        return length;
    }
    if (strcmp(note.recorded, "none") == 0)
        return 0;
    if (note.recorded[0] == '\0')
        return plain(&note, bytes, size, first);
    length = recorded("file", strcmp(note.recorded, "garbage") == 0 ? "c1" : note.recorded, bytes,
                      size);
    if (strcmp(note.recorded, "garbage") == 0)
        put(bytes, 0x12345678, 4);
    return length;
}

ssize_t lgetxattr(const char *path, const char *name, void *value, size_t size)
{
    unsigned char bytes[1024];
    unsigned first;
    size_t length;

    if (strcmp(name, "lustre.lov") != 0)
        return NEXT(lgetxattr)(path, name, value, size);
    if (NEXT(lgetxattr)(path, name, value, size) < 0 && errno != ENODATA && errno != ENOTSUP)
        return -1;
    length = layout_of(path, bytes, sizeof bytes, &first);
    if (length == 0) {
        errno = ENODATA;
        return -1;
    }
    if (size < length) {
        errno = ERANGE;
        return -1;
    }
    memcpy(value, bytes, length);
    return (ssize_t)length;
}

int ioctl(int descriptor, unsigned long request, ...)
{
    char path[LONGEST];
    va_list arguments;
    void *argument;

    va_start(arguments, request);
    argument = va_arg(arguments, void *);
    va_end(arguments);
    if (request != _IOR('f', 175, int)) /* lustre_user.h: LL_IOC_GET_MDTIDX */
        return NEXT(ioctl)(descriptor, request, argument);
    path_of(descriptor, path);
    *(int *)argument = note_of(path).mdt;
    return 0;
}

/* As the Fortran bindings call it. */
int PMPI_Get_processor_name(char *name, int *length)
{
    const char *ranks = getenv("LUSTRE_RANKS"), *rank = getenv("OMPI_COMM_WORLD_RANK");

    if (ranks == NULL || rank == NULL)
        return NEXT(PMPI_Get_processor_name)(name, length);
    *length = sprintf(name, "node%d", atoi(rank) / atoi(ranks) + 1);
    return 0;
}

/* Where this OST's next stripe begins in an open file that was laid out, from an offset on; -1: it
 * has none. */
static off_t stripe_on(int descriptor, int ost, off_t offset)
{
    unsigned char bytes[1024] = {0};
    char path[LONGEST], unused[LONGEST];
    unsigned first;
    size_t header;
    uint32_t size;
    uint16_t count;

    path_of(descriptor, path);
    if (!noted(path, "plain", unused) || layout_of(path, bytes, sizeof bytes, &first) == 0)
        return -1;
    header = bytes[2] == 0xd3 ? 48 : 32;
    memcpy(&size, bytes + 24, sizeof size);
    memcpy(&count, bytes + 28, sizeof count);
    for (unsigned i = 0; i < count; i++, offset = (offset / size + 1) * size)
        if (bytes[header + 24 * (offset / size % count) + 20] == ost)
            return offset;
    return -1;
}

/* How much of a write goes through: what comes before the stripe on an OST in trouble; or -1 and an
 * errno. */
static ssize_t allowed(int descriptor, size_t bytes, off_t offset)
{
    const char *dead = getenv("LUSTRE_DEAD"), *full = getenv("LUSTRE_FULL");
    off_t stripe;

    if (dead == NULL && full == NULL)
        return (ssize_t)bytes;
    stripe = stripe_on(descriptor, atoi(dead == NULL ? full : dead), offset);
    if (stripe < 0 || stripe >= offset + (off_t)bytes)
        return (ssize_t)bytes;
    if (stripe > offset)
        return (ssize_t)(stripe - offset);
    while (dead != NULL)
        pause();
    errno = ENOSPC;
    return -1;
}

ssize_t pwrite(int descriptor, const void *data, size_t bytes, off_t offset)
{
    ssize_t part = allowed(descriptor, bytes, offset);

    return part < 0 ? part : NEXT(pwrite)(descriptor, data, (size_t)part, offset);
}

ssize_t pwrite64(int descriptor, const void *data, size_t bytes, off64_t offset)
    __attribute__((alias("pwrite")));

ssize_t pwritev(int descriptor, const struct iovec *vectors, int count, off_t offset)
{
    ssize_t part;

    if (getenv("LUSTRE_DEAD") == NULL && getenv("LUSTRE_FULL") == NULL)
        return NEXT(pwritev)(descriptor, vectors, count, offset);
    part = allowed(descriptor, vectors[0].iov_len, offset);
    if (part < 0)
        return part;
    return NEXT(pwrite)(descriptor, vectors[0].iov_base, (size_t)part, offset); /* short */
}

ssize_t pwritev64(int descriptor, const struct iovec *vectors, int count, off64_t offset)
    __attribute__((alias("pwritev")));
