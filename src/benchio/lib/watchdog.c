/* The clock behind watchdog.f90: a thread, for a signal reaches no process whose call the kernel
 * does not let go, as when a metadata server hangs. What may hang itself is left to another. */
#define _GNU_SOURCE

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

void benchio_end_program(void);
int benchio_probe_write(const char *path);
int benchio_remove_subfiled(const char *path);
void benchio_strerror(int error, char *text, int32_t size);

enum { stack_bytes = 256 * 1024, unknown = -1 };

static struct {
    pthread_mutex_t lock;
    pthread_cond_t is_earlier; /* than what the clock sleeps for */
    int has_clock, is_armed, is_over;
    struct timespec limit, sleeps_until;
    char file[PATH_MAX], probe[PATH_MAX], message[PATH_MAX + 256];
    int has_subfiles; /* of HDF5's, the file */
    char *directories; /* each ended by NUL, the last by two */
    int probes, status;
    unsigned delay;
    volatile int met;     /* by the probe: an errno or 0; unknown until it has ended */
    volatile int is_done; /* the removal of the directories */
} watched = {.lock = PTHREAD_MUTEX_INITIALIZER, .met = unknown};

static int is_before(struct timespec a, struct timespec b)
{
    return a.tv_sec < b.tv_sec || (a.tv_sec == b.tv_sec && a.tv_nsec < b.tv_nsec);
}

static struct timespec now(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return time;
}

/* A thread that takes no signal: those are for who calls the libraries. */
static int start(void *(*work)(void *))
{
    pthread_attr_t attributes;
    pthread_t thread;
    sigset_t all, before;
    int error;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, stack_bytes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    error = pthread_create(&thread, &attributes, work, NULL);
    pthread_attr_destroy(&attributes);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}

static void *probe(void *unused)
{
    (void)unused;
    watched.met = benchio_probe_write(watched.probe);
    return NULL;
}

static void *remove_file(void *unused)
{
    (void)unused;
    if (watched.file[0] != '\0' && watched.has_subfiles)
        benchio_remove_subfiled(watched.file);
    else if (watched.file[0] != '\0')
        unlink(watched.file);
    return NULL;
}

static void *remove_directories(void *unused)
{
    (void)unused;
    if (watched.directories != NULL)
        for (const char *name = watched.directories; *name != '\0'; name += strlen(name) + 1)
            rmdir(name); /* only an empty one goes */
    watched.is_done = 1;
    return NULL;
}

static void say(void)
{
    char met[256] = "", text[sizeof watched.message + 512];
    ssize_t written;
    int length;

    if (watched.probes && watched.met > 0) {
        benchio_strerror(watched.met, met, sizeof met);
        length = snprintf(text, sizeof text, "%s; a small write beside it fails: %s\n",
                          watched.message, met);
    } else {
        length = snprintf(text, sizeof text, "%s%s\n", watched.message,
                          !watched.probes     ? ""
                          : watched.met == 0 ? "; a small write beside it succeeds"
                                             : "; a small write beside it does not end either");
    }
    written = write(STDERR_FILENO, text, (size_t)length);
    (void)written;
}

/* Waits for a second, or less. */
static void wait_for(const volatile int *value, int not_yet)
{
    const struct timespec moment = {.tv_nsec = 10000000};

    for (int i = 0; i < 100 && *value == not_yet; i++)
        nanosleep(&moment, NULL);
}

/* Waits for the limit; then the file goes, as every rank's does, and after the delay this process.
 * A write is tried before, for the file may be what fills the filesystem. */
static void *keep_watch(void *unused)
{
    const struct timespec forever = {.tv_sec = INT32_MAX};

    (void)unused;
    pthread_mutex_lock(&watched.lock);
    while (!watched.is_armed || is_before(now(), watched.limit)) {
        watched.sleeps_until = watched.is_armed ? watched.limit : forever;
        pthread_cond_timedwait(&watched.is_earlier, &watched.lock, &watched.sleeps_until);
    }
    watched.is_over = 1;
    pthread_mutex_unlock(&watched.lock); /* nobody changes what is watched any more */

    if (watched.probes) {
        start(probe);
        wait_for(&watched.met, unknown);
    }
    start(remove_file);
    for (unsigned left = watched.delay; left > 0;)
        left = sleep(left);
    say();
    if (!watched.probes || watched.met != unknown) { /* else that would not end either */
        start(remove_directories);
        wait_for(&watched.is_done, 0);
    }
    benchio_end_program();
    _exit(watched.status);
}

/* The clock starts with the first limit. */
static void start_clock(void)
{
    pthread_condattr_t attributes;

    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&watched.is_earlier, &attributes);
    pthread_condattr_destroy(&attributes);
    watched.sleeps_until = now();
    watched.has_clock = start(keep_watch) == 0;
}

/* What a hang would leave: a file, unless its name is empty, with its subfiles if it is to have
 * some, and directories; and where a small write can be tried. They are not to change while a limit
 * runs. */
void benchio_guard(const char *file, int32_t has_subfiles, const char *probe,
                   const char *directories)
{
    const char *end = directories;

    while (*end != '\0')
        end += strlen(end) + 1;
    snprintf(watched.file, sizeof watched.file, "%s", file);
    watched.has_subfiles = has_subfiles;
    snprintf(watched.probe, sizeof watched.probe, "%s", probe);
    free(watched.directories);
    watched.directories = malloc((size_t)(end - directories) + 1);
    if (watched.directories != NULL)
        memcpy(watched.directories, directories, (size_t)(end - directories) + 1);
}

/* Unless called again within so many seconds, remove the file and, after so many more of delay, say
 * message, with what a small write meets if this is to be tried, remove the directories that are
 * empty, and end this process. With 0 seconds never. Once the limit is over the end cannot be put
 * off: a call then waits for it. */
void benchio_watch(int32_t seconds, int32_t delay, const char *message, int32_t probes,
                   int32_t status)
{
    struct timespec limit = now();

    limit.tv_sec += seconds;
    pthread_mutex_lock(&watched.lock);
    while (watched.is_over) {
        pthread_mutex_unlock(&watched.lock);
        pause();
        pthread_mutex_lock(&watched.lock);
    }
    watched.is_armed = seconds > 0;
    if (watched.is_armed) {
        snprintf(watched.message, sizeof watched.message, "%s", message);
        watched.delay = (unsigned)delay;
        watched.probes = probes;
        watched.status = status;
        watched.limit = limit;
        if (!watched.has_clock)
            start_clock();
        else if (is_before(limit, watched.sleeps_until)) /* else it wakes in time by itself */
            pthread_cond_signal(&watched.is_earlier);
    }
    pthread_mutex_unlock(&watched.lock);
}
