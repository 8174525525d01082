/* What benchio writes, and what is still there of it: the words of arrays, of sets of files and of
 * small files. pattern.f90 has the formula. A word depends on nothing but its index and a key, so
 * that any part can be written, or confirmed, at the speed of memory. */
#include "benchio.h"

#include <math.h>
#include <string.h>

/* The compiler makes such a function for several kinds of processors; the loader chooses. */
#if defined __x86_64__ && defined __GLIBC__ && defined __GNUC__ && !defined __clang__
#define FOR_EACH_PROCESSOR __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define FOR_EACH_PROCESSOR
#endif

enum { mask31 = 0x7fffffff, mask21 = 0x1fffff, increment = 1013904223, word_bytes = 8 };

/* Factors of mix, and their inverses modulo 2^31. */
enum { factor_1 = 739982445, factor_2 = 695872825, inverse_1 = 1693068645, inverse_2 = 217100553 };

/* Words that are compared at a time: at first, for what is wrong mostly goes on, and at most. */
enum { first_words = 8, most_words = 1024 };

static const uint64_t exponent_of_one = (uint64_t)1023 << 52;

/* Another number of 31 bits for each. Its products are right in their lower bits. */
static inline uint32_t mix(uint32_t x)
{
    x = (x ^ x >> 15) * factor_1 & mask31;
    x = (x ^ x >> 12) * factor_2 & mask31;
    return x ^ x >> 15;
}

/* The inverse of mix: the number of 31 bits that gives another one by xor with itself, shifted. */
static uint32_t unmix(uint32_t y)
{
    y = (y ^ y >> 15 ^ y >> 30) * (uint32_t)inverse_2 & mask31;
    y = (y ^ y >> 12 ^ y >> 24) * (uint32_t)inverse_1 & mask31;
    return y ^ y >> 15 ^ y >> 30;
}

/* What the upper bits of an index, and the key, make of a word. */
static uint32_t upper_of(int64_t index, int64_t key)
{
    return mix((uint32_t)(index >> 31 & mask31) ^ (((uint32_t)key + increment) & mask31));
}

static inline uint64_t word_of(uint32_t low, uint32_t key, uint32_t upper)
{
    const uint32_t a = mix((low & mask31) ^ key), b = mix(a ^ upper);

    return exponent_of_one | (uint64_t)b << 21 | (a & mask21);
}

uint64_t benchio_word(int64_t index, int64_t key)
{
    return word_of((uint32_t)index, (uint32_t)key, upper_of(index, key));
}

/* Whether the bytes of words are in another order than this machine's. */
static int is_swapped(const struct content *content)
{
    const uint16_t two_bytes = 1;
    unsigned char first;

    memcpy(&first, &two_bytes, 1);
    return content->as_big_endian && first == 1;
}

/* Words of which the upper bits of all indices are the same. */
FOR_EACH_PROCESSOR static void put_words(unsigned char *restrict to, uint32_t words, uint32_t low,
                                         uint32_t key, uint32_t upper, uint64_t kept_bits,
                                         int swapped)
{
    for (uint32_t i = 0; i < words; i++) {
        uint64_t word = word_of(low + i, key, upper) & kept_bits;

        word = swapped ? __builtin_bswap64(word) : word;
        memcpy(to + (size_t)i * word_bytes, &word, word_bytes);
    }
}

/* 0 if the same words are there. */
FOR_EACH_PROCESSOR static uint64_t compare_words(const unsigned char *restrict from, uint32_t words,
                                                 uint32_t low, uint32_t key, uint32_t upper,
                                                 uint64_t kept_bits, int swapped)
{
    uint64_t wrong = 0;

    for (uint32_t i = 0; i < words; i++) {
        const uint64_t word = word_of(low + i, key, upper) & kept_bits;
        uint64_t there;

        memcpy(&there, from + (size_t)i * word_bytes, word_bytes);
        wrong |= (swapped ? __builtin_bswap64(there) : there) ^ word;
    }
    return wrong;
}

/* So many bytes, or fewer: whole words whose upper bits are the same, or a part of one. */
static int64_t run_of(int64_t index, int64_t bytes)
{
    const int64_t words = (int64_t)mask31 + 1 - (index & mask31);

    if (bytes < word_bytes)
        return bytes;
    return bytes / word_bytes < words ? bytes / word_bytes * word_bytes : words * word_bytes;
}

/* Makes bytes: those of the word at an index, and of the words that follow it. */
void benchio_fill(const struct content *content, int64_t index, int64_t bytes, void *to)
{
    const int swapped = is_swapped(content);
    unsigned char *at = to, part[word_bytes];

    while (bytes > 0) {
        const int64_t run = run_of(index, bytes);
        const uint32_t words = run < word_bytes ? 1 : (uint32_t)(run / word_bytes);

        put_words(run < word_bytes ? part : at, words, (uint32_t)index, (uint32_t)content->key,
                  upper_of(index, content->key), content->kept_bits, swapped);
        if (run < word_bytes)
            memcpy(at, part, (size_t)run);
        at += run;
        index += words;
        bytes -= run;
    }
}

/* Whether a library has rounded what was written to what is there. What is no number it has not. */
static int is_rounded(const struct content *content, const void *written, const void *there)
{
    double values[2];

    memcpy(&values[0], written, word_bytes);
    memcpy(&values[1], there, word_bytes);
    return isfinite(values[1]) && fabs(values[1] - values[0]) <= content->tolerance;
}

/* Compares bytes, from the word at a place on, with what benchio_fill would make of all. Returns the
 * place of the first that is wrong and of a word that is not near enough; the end if none is. */
int64_t benchio_right_bytes(const struct content *content, int64_t index, int64_t bytes,
                            const void *from, int64_t at)
{
    const int swapped = is_swapped(content);
    unsigned char written[most_words * word_bytes];
    const unsigned char *there = from;
    int64_t most = first_words * word_bytes, run;

    index += at / word_bytes;
    for (; at < bytes; at += run, index += (run + word_bytes - 1) / word_bytes) {
        run = run_of(index, bytes - at < most ? bytes - at : most);
        most = most < (int64_t)sizeof written ? 2 * most : most;
        if (run >= word_bytes
            && compare_words(there + at, (uint32_t)(run / word_bytes), (uint32_t)index,
                             (uint32_t)content->key, upper_of(index, content->key),
                             content->kept_bits, swapped) == 0)
            continue;
        benchio_fill(content, index, run, written);
        for (int64_t i = 0; i < run; i++)
            if (there[at + i] != written[i]) {
                const int64_t word = i / word_bytes * word_bytes;

                if (content->tolerance > 0 && word + word_bytes <= run
                    && is_rounded(content, written + word, there + at + word))
                    i = word + word_bytes - 1;
                else
                    return at + i;
            }
    }
    return bytes;
}

/* The word at a place of bytes that were compared. */
uint64_t benchio_word_at(const struct content *content, const void *from, int64_t at)
{
    uint64_t word;

    memcpy(&word, (const unsigned char *)from + at, word_bytes);
    return is_swapped(content) ? __builtin_bswap64(word) : word;
}

/* Finds what a wrong word is: 0, what belongs to the index `shift` further on, or what `other`, a
 * key, has at its index. Both hashes of a word are undone. Of the first one 21 bits of 31 are in
 * it; for another key the other 10 are tried. One of two million other words is taken for such. */
int32_t benchio_kind_of_wrong(int64_t index, int64_t key, uint64_t word, int64_t *shift,
                              int64_t *other)
{
    const uint32_t low = word & mask21, b = unmix((uint32_t)(word >> 21) & mask31);
    const uint32_t a = b ^ upper_of(index, key);

    *shift = 0;
    *other = 0;
    if (word == 0)
        return WRONG_ZEROS;
    if (word >> 52 != exponent_of_one >> 52)
        return WRONG_UNKNOWN;
    if ((a & mask21) == low) {
        *shift = (int64_t)(unmix(a) ^ (uint32_t)key) - (index & mask31);
        return WRONG_SHIFTED;
    }
    for (uint32_t high = 0; high < 1 << 10; high++) {
        *other = unmix(high << 21 | low) ^ (uint32_t)(index & mask31);
        if (benchio_word(index, *other) == word)
            return WRONG_OF_OTHER;
    }
    *other = 0;
    return WRONG_UNKNOWN;
}

/* The key of a text, 31 bits: 0 of an empty one. Each pair of texts has the same one by a chance of
 * one in 2^31. */
int64_t benchio_key(const char *text, int64_t length)
{
    uint32_t key = 0;

    for (int64_t i = 0; i < length; i++)
        key = mix(((key ^ (unsigned char)text[i]) + increment) & mask31);
    return key;
}

/* Another number for each, by the steps of SplitMix64. */
uint64_t benchio_mixed(uint64_t x)
{
    x *= 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

/* A number that tells bytes from others, by rounds like XXH64's: another word always gives another
 * number, and other bytes give the same by a chance of one in 2^64. */
uint64_t benchio_number_of(const unsigned char *bytes, int64_t length)
{
    uint64_t lanes[4] = {1, 2, 3, 4}, word;
    int64_t at = 0;

    for (; at + 32 <= length; at += 32)
        for (int i = 0; i < 4; i++) {
            memcpy(&word, bytes + at + 8 * i, 8);
            lanes[i] += word * 0xc2b2ae3d27d4eb4fu;
            lanes[i] = (lanes[i] << 31 | lanes[i] >> 33) * 0x9e3779b185ebca87u;
        }
    for (int i = 0; at < length; at += 8, i++) {
        word = 0;
        memcpy(&word, bytes + at, (size_t)(length - at < 8 ? length - at : 8));
        lanes[i] = benchio_mixed(lanes[i] ^ word);
    }
    return benchio_mixed(lanes[0]) + 3 * benchio_mixed(lanes[1]) + 5 * benchio_mixed(lanes[2])
        + 7 * benchio_mixed(lanes[3]);
}

/* The number at a place of a random order of so many, both from 0. No two places have the same
 * number, and nothing is kept in memory: the place is mixed in as many bits as are needed, by steps
 * that can each be undone, until it is small enough (cycle walking: Black and Rogaway, Ciphers with
 * arbitrary finite domains, 2002). The third factor is that of Numerical Recipes' generator. */
int64_t benchio_permuted(int64_t place, int64_t many, int64_t key)
{
    static const uint64_t factors[] = {factor_1, factor_2, 1664525};
    const uint64_t key31 = (uint64_t)key & mask31;
    uint64_t number = (uint64_t)place, salt;
    int bits = 2;

    while (bits < 63 && (many - 1) >> bits != 0)
        bits++;
    const uint64_t mask = ((uint64_t)1 << bits) - 1;
    salt = ((key31 * factor_1 & mask) ^ key31 * factor_2 >> 31) & mask31;
    do
        for (uint64_t i = 0; i < 3; i++) {
            number = (number + salt * (i + 1)) & mask;
            number = number * factors[i] & mask;
            number ^= number >> (bits + 1) / 2;
        }
    while (number >= (uint64_t)many);
    return (int64_t)number;
}
