/* The content of files: as a plain reading of the formula in pattern.f90 has it, as it was recorded,
 * and as numbers the same on every machine. Any wrong byte is seen. */
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "benchio.h"
#include "expect.h"

enum { MOST = 5000 };

static const int64_t key = 1369760620; /* of a/mpiio/0/1 */

static uint64_t mix(uint64_t x)
{
    const uint64_t mask = ((uint64_t)1 << 31) - 1;

    x = ((x ^ (x >> 15)) * 739982445) & mask;
    x = ((x ^ (x >> 12)) * 695872825) & mask;
    return x ^ (x >> 15);
}

/* The formula, step by step, in 64 bits. */
static uint64_t plain(uint64_t i, uint64_t of_key)
{
    const uint64_t mask = ((uint64_t)1 << 31) - 1;
    const uint64_t a = mix((i & mask) ^ of_key);
    const uint64_t b = mix(a ^ mix(((i >> 31) & mask) ^ ((of_key + 1013904223) & mask)));

    return ((uint64_t)1023 << 52) + ((b << 21) | (a & 2097151));
}

/* The bytes of a word, most significant first or as this machine has them. */
static void put(unsigned char *to, uint64_t word, int as_big_endian)
{
    memcpy(to, &word, 8);
    for (int i = 0; as_big_endian && i < 8; i++)
        to[i] = (unsigned char)(word >> (56 - 8 * i));
}

static void expect_recorded(void)
{
    static const int64_t index[] = {0, 1, 2147483647, 2147483648, 1099511627776, 1152921504606859321};
    static const uint64_t fraction[] = {3612143807997284, 1095997211227409, 1575613409507784,
                                        1617183051195748, 1437484056421732, 3158462340670908};

    for (int i = 0; i < 6; i++)
        expect(benchio_word(index[i], key) == ((uint64_t)1023 << 52) + fraction[i], "a word");
    expect(benchio_key("a/mpiio/0/1", 11) == key, "a key");
    expect(benchio_key("a/mpiio/0/2", 11) == 463199091, "that of another round");
    expect(benchio_key("", 0) == 0, "no text has none");
    expect(benchio_mixed(1) == 0xe220a8397b1dcdaf, "a number");
    expect(benchio_permuted(0, 1000, 77) == 309 && benchio_permuted(1, 1000, 77) == 374
               && benchio_permuted(2, 1000000000000, 12345) == 112378374605
               && benchio_permuted(1, 1099511627783, 2147483646) == 1073299839939, "an order");
}

/* Runs of all lengths that begin anywhere, and go over the place where the upper bits change. */
static void expect_runs(struct content content)
{
    static unsigned char made[MOST + 16], wanted[MOST + 16];
    static const int64_t starts[] = {0, 7, 2147483648 - 300, 3 * 2147483648 - 1, 1099511627776 - 5};

    for (int start = 0; start < 5; start++) {
        for (int i = 0; i < MOST / 8 + 1; i++)
            put(wanted + 8 * i, plain((uint64_t)(starts[start] + i), (uint64_t)content.key)
                                    & content.kept_bits, content.as_big_endian);
        for (int bytes = 1; bytes < MOST; bytes = bytes < 70 ? bytes + 1 : bytes * 2 + 3) {
            unsigned char *at = made + bytes % 8; /* nothing need be aligned */

            memset(made, 0xa5, sizeof made);
            benchio_fill(&content, starts[start], bytes, at);
            expect(memcmp(at, wanted, (size_t)bytes) == 0, "what the formula says is made");
            expect(at[bytes] == 0xa5 && (at == made || at[-1] == 0xa5), "and nothing beside it");
            expect(benchio_right_bytes(&content, starts[start], bytes, at, 0) == bytes, "it is right");
            for (int place = bytes - 1; place >= 0; place -= 1 + bytes / 40) {
                at[place] ^= 0x10;
                expect(benchio_right_bytes(&content, starts[start], bytes, at, 0) == place,
                       "each wrong byte is seen, and where");
                expect(benchio_right_bytes(&content, starts[start], bytes, at, place / 8 * 8) == place,
                       "from its word on, too");
                at[place] ^= 0x10;
            }
        }
        expect(benchio_word_at(&content, wanted, 16)
                   == (plain((uint64_t)(starts[start] + 2), (uint64_t)content.key)
                       & content.kept_bits), "a word is read back");
    }
}

static void expect_rounded(void)
{
    const struct content content = {.key = key, .kept_bits = UINT64_MAX, .tolerance = 0.005};
    double values[100];

    benchio_fill(&content, 0, sizeof values, values);
    for (int i = 0; i < 100; i++)
        values[i] += i % 2 ? 0.0049 : -0.0049;
    expect(benchio_right_bytes(&content, 0, sizeof values, values, 0) == sizeof values, "near");
    values[60] += 0.0003 * (60 % 2 ? 1 : -1);
    expect(benchio_right_bytes(&content, 0, sizeof values, values, 0) / 8 == 60, "and too far");
    values[60] = NAN;
    expect(benchio_right_bytes(&content, 0, sizeof values, values, 0) / 8 == 60, "no number");
    values[60] = INFINITY;
    expect(benchio_right_bytes(&content, 0, sizeof values, values, 0) / 8 == 60, "nor this");
}

static void expect_kinds(void)
{
    const int64_t at = 5000000000;
    int64_t shift, other;

    expect(benchio_kind_of_wrong(at, key, 0, &shift, &other) == WRONG_ZEROS, "a hole");
    expect(benchio_kind_of_wrong(at, key, plain(at - 4096, key), &shift, &other) == WRONG_SHIFTED
               && shift == -4096, "what belongs elsewhere, and where");
    expect(benchio_kind_of_wrong(at, key, plain(at, 463199091), &shift, &other) == WRONG_OF_OTHER
               && other == 463199091, "what another file has, and which");
    expect(benchio_kind_of_wrong(at, key, 0x4045000000000000, &shift, &other) == WRONG_UNKNOWN
               && other == 0, "and what nobody wrote");
}

/* Each number once, in an order that another key changes. */
static void expect_orders(void)
{
    static const int64_t sizes[] = {1, 2, 3, 16, 17, 1000};

    for (int i = 0; i < 6; i++) {
        char seen[1000] = {0};
        int as_before = 0;

        for (int64_t place = 0; place < sizes[i]; place++) {
            const int64_t number = benchio_permuted(place, sizes[i], 77);

            expect(number >= 0 && number < sizes[i] && !seen[number]++, "each once");
            as_before += number == benchio_permuted(place, sizes[i], 78);
        }
        expect(sizes[i] < 1000 || as_before < 20, "another key shuffles otherwise");
    }
}

int main(void)
{
    unsigned char bytes[100] = {0};
    uint64_t number = benchio_number_of(bytes, 100);

    expect_recorded();
    expect_runs((struct content){.key = key, .kept_bits = UINT64_MAX});
    expect_runs((struct content){.key = key, .kept_bits = UINT64_MAX, .as_big_endian = 1});
    expect_runs((struct content){.key = 2147483647, .kept_bits = UINT64_MAX << 32});
    expect_rounded();
    expect_kinds();
    expect_orders();
    for (int i = 0; i < 100; i++) {
        bytes[i] = 1;
        expect(benchio_number_of(bytes, 100) != number, "other bytes have another number");
        bytes[i] = 0;
    }
    return 0;
}
