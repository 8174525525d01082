/* For environment.f90 and nodes.f90: digests of texts and files, and what is mapped into this
 * process. */
#define _XOPEN_SOURCE 700

#include "benchio.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* SHA-256 of a stream of bytes (FIPS 180-4). */
struct digest {
    uint32_t state[8];
    uint64_t bytes;
    unsigned char block[64];
};

static const uint32_t roots[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static const struct digest of_nothing = {{
    0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19,
}, 0, {0}};

static uint32_t rotated(uint32_t word, int bits)
{
    return word >> bits | word << (32 - bits);
}

static void add_block(struct digest *sum)
{
    uint32_t words[64], state[8];
    for (int i = 0; i < 16; i++) {
        const unsigned char *at = sum->block + 4 * i;
        words[i] = (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
    }
    for (int i = 16; i < 64; i++) {
        uint32_t a = words[i - 15], b = words[i - 2];
        words[i] = words[i - 16] + (rotated(a, 7) ^ rotated(a, 18) ^ a >> 3) + words[i - 7] +
                   (rotated(b, 17) ^ rotated(b, 19) ^ b >> 10);
    }
    memcpy(state, sum->state, sizeof state);
    for (int i = 0; i < 64; i++) {
        uint32_t a = state[0], b = state[1], c = state[2];
        uint32_t e = state[4], f = state[5], g = state[6];
        uint32_t first = state[7] + (rotated(e, 6) ^ rotated(e, 11) ^ rotated(e, 25)) +
                         ((e & f) ^ (~e & g)) + roots[i] + words[i];
        uint32_t second = (rotated(a, 2) ^ rotated(a, 13) ^ rotated(a, 22)) +
                          ((a & b) ^ (a & c) ^ (b & c));
        memmove(state + 1, state, 7 * sizeof *state);
        state[4] += first;
        state[0] = first + second;
    }
    for (int i = 0; i < 8; i++)
        sum->state[i] += state[i];
}

static void add(struct digest *sum, const void *data, size_t size)
{
    const unsigned char *bytes = data;
    for (size_t i = 0; i < size; i++) {
        sum->block[sum->bytes++ % 64] = bytes[i];
        if (sum->bytes % 64 == 0)
            add_block(sum);
    }
}

/* Ends the stream. Its first 64 bits, as 16 digits. */
static void write_digits(struct digest *sum, char digits[17])
{
    uint64_t bits = sum->bytes * 8;
    unsigned char length[8];
    for (int i = 0; i < 8; i++)
        length[i] = (unsigned char)(bits >> (56 - 8 * i));
    add(sum, "\x80", 1);
    while (sum->bytes % 64 != 56)
        add(sum, "", 1);
    add(sum, length, sizeof length);
    snprintf(digits, 17, "%08x%08x", (unsigned)sum->state[0], (unsigned)sum->state[1]);
}

void benchio_digest(const char *text, int64_t size, char digits[17])
{
    struct digest sum = of_nothing;
    add(&sum, text, (size_t)size);
    write_digits(&sum, digits);
}

/* Adds what a regular file holds. 0: it is none, or nobody may read it. */
static int add_file(struct digest *sum, const char *path)
{
    static char buffer[1 << 16];
    struct stat facts;
    ssize_t got;
    int file = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC); /* a FIFO would wait */
    if (file < 0)
        return 0;
    int is_file = fstat(file, &facts) == 0 && S_ISREG(facts.st_mode);
    while (is_file && (got = read(file, buffer, sizeof buffer)) > 0)
        add(sum, buffer, (size_t)got);
    close(file);
    return is_file;
}

/* Numbers of a host of this name, from its present boot: what runs on one kernel shares a page cache
 * and a clock. */
void benchio_host_numbers(const char *name, int32_t numbers[2])
{
    struct digest sum = of_nothing;
    char digits[17];
    add(&sum, name, strlen(name));
    add_file(&sum, "/proc/sys/kernel/random/boot_id");
    write_digits(&sum, digits);
    for (int i = 0; i < 2; i++)
        numbers[i] = (int32_t)(sum.state[i] & INT32_MAX);
}

static int is_visible(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

/* The digest of a file; where `directories` is set also of a directory, by the names and contents of
 * its files. 0: there is no such. */
int benchio_digest_of_file(const char *path, int32_t directories, char digits[17])
{
    struct digest sum = of_nothing;
    struct dirent **names = NULL;
    char file[8192];
    int is_there = add_file(&sum, path), count = -1;
    if (!is_there && directories)
        count = scandir(path, &names, is_visible, alphasort);
    for (int i = 0; i < count; i++) {
        snprintf(file, sizeof file, "%s/%s", path, names[i]->d_name);
        add(&sum, names[i]->d_name, strlen(names[i]->d_name) + 1);
        add_file(&sum, file);
        free(names[i]);
    }
    free(names);
    write_digits(&sum, digits);
    return is_there || count >= 0;
}

/* The path of a file that is mapped into this process, and whose name begins so; the index-th in
 * the order of addresses. 0: there are no more. */
int benchio_loaded(const char *beginning, int32_t index, char *path, int32_t size)
{
    char line[8192], last[8192] = "";
    FILE *maps = fopen("/proc/self/maps", "re");
    while (maps && index >= 0 && fgets(line, sizeof line, maps)) {
        char *at = strchr(line, '/'), *name = strrchr(line, '/');
        if (at == NULL || strcmp(at, last) == 0)
            continue;
        snprintf(last, sizeof last, "%s", at);
        if (strncmp(name + 1, beginning, strlen(beginning)) == 0 && index-- == 0)
            snprintf(path, (size_t)size, "%.*s", (int)strcspn(at, "\n"), at);
    }
    if (maps)
        fclose(maps);
    return index < 0;
}
