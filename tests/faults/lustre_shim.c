/* A stand-in for Lustre, for tests on machines without one, loaded with LD_PRELOAD; never part of
 * benchio. It shows that benchio asks and judges, not that Lustre answers so.
 *
 * To benchio itself, not to the libraries it calls, every filesystem is Lustre and every file has
 * the striping "count size offset" of
 *   LUSTRE_STRIPING      if set: what the filesystem does, whatever was asked for; else of the file
 *   LUSTRE_STATE         which the stand-in for lfs beside this file writes; if empty: no layout
 * as a layout LUSTRE_LAYOUT=v1 (or not set), v3, composite (the last component that has objects),
 * or garbage. If its offset is LUSTRE_SLOW, every fsync takes a second longer: a slow OST. */
#define _GNU_SOURCE

#include <dlfcn.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/vfs.h>
#include <sys/xattr.h>
#include <unistd.h>

/* MPI libraries choose a driver by statfs, and may have none for Lustre. */
static int asked_by_program(void *caller)
{
    Dl_info info;

    return dladdr(caller, &info) != 0 && strcmp(info.dli_fname, program_invocation_name) == 0;
}

int statfs(const char *path, struct statfs *filesystem)
{
    int (*next)(const char *, struct statfs *) =
        (int (*)(const char *, struct statfs *))dlsym(RTLD_NEXT, "statfs");
    int code = next(path, filesystem);

    if (code == 0 && asked_by_program(__builtin_return_address(0)))
        filesystem->f_type = 0x0BD00BD0;
    return code;
}

static int striping(unsigned *count, unsigned *size, unsigned *offset)
{
    const char *wanted = getenv("LUSTRE_STRIPING"), *path = getenv("LUSTRE_STATE");
    char text[80] = "";
    FILE *state;

    if (wanted == NULL && path != NULL && (state = fopen(path, "r")) != NULL) {
        if (fgets(text, sizeof text, state) == NULL)
            text[0] = '\0';
        fclose(state);
    }
    return sscanf(wanted == NULL ? text : wanted, "%u %u %u", count, size, offset) == 3;
}

static void put(unsigned char *at, uint32_t number, int bytes)
{
    for (int i = 0; i < bytes; i++)
        at[i] = (unsigned char)(number >> 8 * i);
}

/* A layout of one component and one object; a pool's name is before the object of version 3. */
static size_t put_plain(unsigned char *at, uint32_t magic, unsigned count, unsigned size,
                        unsigned offset)
{
    size_t object = magic == 0x0BD30BD0 ? 48 : 32;

    put(at, magic, 4);
    put(at + 4, 1, 4); /* RAID 0 */
    put(at + 24, size, 4);
    put(at + 28, count, 2);
    put(at + object + 20, offset, 4);
    return object + 24;
}

/* A progressive layout of three components: one stripe, the striping, and on all OSTs one that has
 * no objects yet. */
static size_t put_composite(unsigned char *bytes, unsigned count, unsigned size, unsigned offset)
{
    enum { components = 3, header = 32, entry = 48, has_objects = 16 };
    size_t at = header + components * entry;

    put(bytes, 0x0BD60BD0, 4);
    put(bytes + 14, components, 2);
    for (int i = 0; i < components; i++) {
        unsigned char *described = bytes + header + i * entry;
        size_t length = put_plain(bytes + at, 0x0BD10BD0, i == 0 ? 1 : i == 1 ? count : 0xffff,
                                  i == 1 ? size : 1 << 16, i == 1 ? offset : 0);

        put(described + 4, i == 2 ? 0 : has_objects, 4);
        put(described + 24, (uint32_t)at, 4);
        put(described + 28, (uint32_t)length, 4);
        at += length;
    }
    return at;
}

int fsync(int descriptor)
{
    int (*next)(int) = (int (*)(int))dlsym(RTLD_NEXT, "fsync");
    const char *slow = getenv("LUSTRE_SLOW");
    unsigned count, size, offset;

    if (slow != NULL && striping(&count, &size, &offset) && offset == (unsigned)atoi(slow))
        sleep(1);
    return next(descriptor);
}

ssize_t lgetxattr(const char *path, const char *name, void *value, size_t size)
{
    ssize_t (*next)(const char *, const char *, void *, size_t) =
        (ssize_t(*)(const char *, const char *, void *, size_t))dlsym(RTLD_NEXT, "lgetxattr");
    const char *layout = getenv("LUSTRE_LAYOUT");
    const int is_v3 = layout != NULL && strcmp(layout, "v3") == 0;
    unsigned char bytes[512] = {0};
    unsigned count, stripe_size, offset;
    size_t length;

    if (strcmp(name, "lustre.lov") != 0)
        return next(path, name, value, size);
    if (next(path, name, value, size) < 0 && errno != ENODATA && errno != ENOTSUP)
        return -1;
    if (!striping(&count, &stripe_size, &offset)) {
        errno = ENODATA;
        return -1;
    }
    if (layout != NULL && strcmp(layout, "composite") == 0)
        length = put_composite(bytes, count, stripe_size, offset);
    else
        length = put_plain(bytes, is_v3 ? 0x0BD30BD0 : 0x0BD10BD0, count, stripe_size, offset);
    if (layout != NULL && strcmp(layout, "garbage") == 0)
        put(bytes, 0x12345678, 4);
    if (size < length) {
        errno = ERANGE;
        return -1;
    }
    memcpy(value, bytes, length);
    return (ssize_t)length;
}
