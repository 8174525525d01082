/* What small writes meet beside a file that cannot be written, in its stripes and at its end: a
 * library that waits for ever may have met a full target, or a server that is gone. */
#define _GNU_SOURCE

#include "benchio.h"

#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { stack_bytes = 256 * 1024, unknown = -1, not_tried = -2, most_stripes = 2000 };

/* Where small writes are tried, and what they have met: an errno or 0, and unknown until they have
 * ended. */
static struct {
    char probe[PATH_MAX], written[PATH_MAX];
    int64_t bytes; /* that the file at `written` is to have */
    atomic_int beside, end, stripes; /* the number of stripes is unknown until all were tried */
    _Atomic int32_t count;
    int64_t offsets[most_stripes];
    int32_t osts[most_stripes];
    _Atomic int32_t errors[most_stripes];
} met = {.beside = unknown};

/* Notes where a small write can be tried, and the file that is to have so many bytes. */
void benchio_try_at(const char *probe, const char *written, int64_t bytes)
{
    snprintf(met.probe, sizeof met.probe, "%s", probe);
    snprintf(met.written, sizeof met.written, "%s", written);
    met.bytes = bytes;
}

static void *probe_beside(void *unused)
{
    (void)unused;
    met.beside = benchio_probe_write(met.probe);
    return NULL;
}

/* In every stripe of the file that this rank writes. */
static void *probe_stripes(void *unused)
{
    int32_t count;

    (void)unused;
    met.stripes = unknown;
    for (int i = 0; i < most_stripes; i++)
        met.errors[i] = not_tried;
    count = benchio_stripe_places((int32_t)strlen(met.written), met.written, met.bytes,
                                  most_stripes, met.offsets, met.osts);
    met.count = count;
    if (count > 0 && benchio_probe_places(met.written, count, met.offsets, met.errors) != 0)
        met.count = 0; /* it is gone */
    met.stripes = met.count;
    return NULL;
}

static int append(char *text, int size, int length, const char *format, ...)
{
    va_list values;

    va_start(values, format);
    if (length < size)
        length += vsnprintf(text + length, (size_t)(size - length), format, values);
    va_end(values);
    return length < size ? length : size - 1;
}

/* In which stripes a byte fails, as the first of those, or does not end. Returns the length. */
static int stripes_in_words(char *text, int size, int length)
{
    enum { shown = 8 };
    char error[256];
    int first = 0, number = 0;

    while (first < met.count && met.errors[first] == 0)
        first++;
    if (first == met.count || met.errors[first] == not_tried)
        return length;
    for (int i = first; i < met.count; i++)
        number += met.errors[i] == met.errors[first];
    length = append(text, size, length, "; of its %d stripe%s, %s on OST", (int)met.count,
                    met.count == 1 ? "" : "s", number == 1 ? "that" : "those");
    for (int i = first, left = number; i < met.count && left > 0; i++) {
        if (met.errors[i] != met.errors[first])
            continue;
        if (number - left == shown) {
            length = append(text, size, length, " and %d more", left);
            break;
        }
        length = append(text, size, length, "%s %d", left-- < number ? "," : "", (int)met.osts[i]);
    }
    if (met.errors[first] == unknown)
        return append(text, size, length, " does not end");
    benchio_strerror(met.errors[first], error, sizeof error);
    return append(text, size, length, " fail%s: %s", number == 1 ? "s" : "", error);
}

/* What small writes have met, beside the file if that was tried. Returns the length. */
int benchio_met_in_words(char *text, int size, int is_beside_tried)
{
    char error[256];
    int length = 0;

    text[0] = '\0';
    if (is_beside_tried && met.beside > 0) {
        benchio_strerror(met.beside, error, sizeof error);
        length = append(text, size, length, "; a small write beside it fails: %s", error);
    } else if (is_beside_tried) {
        length = append(text, size, length, "; a small write beside it %s",
                        met.beside == 0 ? "succeeds" : "does not end either");
    }
    if (is_beside_tried && met.end > 0) {
        benchio_strerror(met.end, error, sizeof error);
        length = append(text, size, length, ", one at its end fails: %s", error);
    }
    return stripes_in_words(text, size, length);
}

/* What small writes meet beside the file that this rank has failed to write, which is tried unless
 * the failure says it itself; in each of its stripes; and else at its end. */
void benchio_diagnose(const char *message, char *text, int32_t size)
{
    const int is_unnamed = !benchio_names_error(message);

    if (is_unnamed)
        probe_beside(NULL);
    probe_stripes(NULL);
    if (is_unnamed && met.beside == 0 && met.count == 0)
        met.end = benchio_probe_end(met.written, met.bytes);
    benchio_met_in_words(text, size, is_unnamed);
    met.end = 0;
    met.count = 0;
    met.beside = unknown;
}

/* Waits until both are known, so many hundredths of a second at most. */
void benchio_wait_for(const atomic_int *value, const atomic_int *other, int not_known, int most)
{
    const struct timespec moment = {.tv_nsec = 10000000};

    for (int i = 0; i < most && (*value == not_known || *other == not_known); i++)
        nanosleep(&moment, NULL);
}

/* Tries small writes, a second at most: returns whether that beside the file has ended. */
int benchio_try_small_writes(int is_beside_tried)
{
    met.beside = is_beside_tried ? unknown : 0;
    met.stripes = unknown;
    if (is_beside_tried)
        benchio_start_thread(probe_beside, stack_bytes);
    benchio_start_thread(probe_stripes, stack_bytes);
    benchio_wait_for(&met.beside, &met.stripes, unknown, 100);
    return met.beside != unknown;
}
