/* All functions that C has for Fortran and for itself, and what both pass to each other. Every file
 * includes this, so that the compiler compares it with what is defined; the project's
 * tests/benchio/test_interfaces.py compares it with Fortran's interfaces. */
#pragma once

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

/* What is to be in a file: the words of a key, of each the bits that are kept. */
struct content {
    int64_t key;
    uint64_t kept_bits;
    double tolerance; /* of what a library has rounded; 0: every bit counts */
    int32_t as_big_endian; /* else in this machine's order */
};

/* What a wrong word is. */
enum { WRONG_ZEROS = 1, WRONG_SHIFTED, WRONG_OF_OTHER, WRONG_UNKNOWN };

/* Of a tree, a sample is a file, and has a size of its own. Of a checkpoint, a sample is a shard,
 * which is a file; the last samples, one of each rank, share the last file. */
struct file_set {
    int64_t files, samples, per_file, sample_bytes, key, shared;
};

/* What is seen where something is done to files. */
struct sight {
    int64_t file, byte, confirmed, in_memory, unsynced;
    int32_t fault;
};

struct mounted {
    char point[4096], source[4096], options[4096], type[64], uuid[64], fsid[64], host[4096];
    int64_t magic, bytes, free_bytes, block_bytes;
    int32_t has_device; /* of blocks */
};

/* Exit codes, as failure.f90 has them. */
enum { exit_io = 3, exit_time_limit = 5, exit_library = 7 };

/* Why a rank ends: for the result file, which rank 0 writes, and for the line on standard error. */
struct notice {
    int32_t status, rank;
    char host[256], call[64], path[4096], message[512];
};

/* Writes the result of the rounds that are complete, with this as what ended the run. */
typedef void reporter(const struct notice *why);

/* What is written, and whether it is still there. */
uint64_t benchio_word(int64_t index, int64_t key);
void benchio_fill(const struct content *content, int64_t index, int64_t bytes, void *to);
int64_t benchio_right_bytes(const struct content *content, int64_t index, int64_t bytes,
                            const void *from, int64_t at);
uint64_t benchio_word_at(const struct content *content, const void *from, int64_t at);
int32_t benchio_kind_of_wrong(int64_t index, int64_t key, uint64_t word, int64_t *shift,
                              int64_t *other);
int64_t benchio_key(const char *text, int64_t length);
uint64_t benchio_mixed(uint64_t x);
uint64_t benchio_number_of(const unsigned char *bytes, int64_t length);
int64_t benchio_permuted(int64_t place, int64_t many, int64_t key);

/* Files as plain bytes. Results are 0, errno, or one of two below it; raw_file.f90 has them. */
int64_t benchio_raw_alignment(void);
int benchio_raw_open(const char *path, int32_t writes, int32_t creates, int32_t *direct, int *fd);
int benchio_raw_close(int fd);
int benchio_raw_sync(int fd);
int benchio_probe_places(const char *path, int32_t count, const int64_t *offsets,
                         _Atomic int32_t *errors);
int benchio_raw_move_box(int fd, int32_t writes, int32_t direct, char *memory,
                         const int64_t memory_step[2], const int64_t file_step[2],
                         int64_t row_bytes, const int64_t rows[2], int64_t *at, int64_t *length);
int benchio_raw_read(int fd, int32_t *direct, char *to, int64_t spare, int64_t offset, int64_t bytes,
                     int64_t *end);
int64_t benchio_raw_resident(int fd, int64_t offset, int64_t bytes);
int benchio_raw_drop_pages(int fd);
int64_t benchio_raw_unsynced(int fd);

/* Of the system. Results are 0 or errno, unless posix.c says otherwise. */
void benchio_keep_freed_memory(void);
int benchio_get_attribute(const char *path, const char *name, void *bytes, int32_t size,
                          int32_t *length);
int benchio_set_attribute(const char *path, const char *name, const char *value);
int benchio_file_size(const char *path, int64_t *bytes);
int benchio_exists(const char *path, int64_t *exists);
int benchio_real_path(const char *path, char *resolved, int32_t size);
int benchio_unlink(const char *path);
int benchio_rmdir(const char *path);
int benchio_make_directory(const char *path);
int benchio_make_private(const char *path);
int benchio_inode(const char *path, char *digits, int32_t size);
int benchio_remove_family(const char *path, const char *mark);
int benchio_first_entry(const char *path, char *name, int32_t size);
int benchio_strerror(int error, char *text, int32_t size);
int benchio_environment(int32_t index, char *text, int32_t size);
int64_t benchio_peak_rss(void);
void benchio_build(char *text, int32_t size);
double benchio_seconds(void);
void benchio_utc_now(char *text, int32_t size);
int benchio_sync_names(int fd);
int benchio_sync_directories(const char *directories);
int benchio_write_file(const char *path, const char *text, int64_t bytes);
int benchio_probe_file(const char *path);
int benchio_probe_write(const char *path);
int benchio_probe_end(const char *path, int64_t bytes);
int benchio_names_error(const char *message);

/* Digests, and what is mapped into this process. */
void benchio_digest(const char *text, int64_t size, char digits[17]);
void benchio_host_numbers(const char *name, int32_t numbers[2]);
int benchio_digest_of_file(const char *path, int32_t directories, char digits[17]);
int benchio_loaded(const char *beginning, int32_t index, char *path, int32_t size);

/* Caches below a filesystem. */
int benchio_has_own_cache(int64_t type);
int benchio_device_caches(const char *sys, const char *device);
int benchio_btrfs_caches(const char *sys, const char *uuid);

/* Where a path is mounted. */
int benchio_lies_elsewhere(const char *path, const char *directory);
int benchio_ask_uuid(int fd, char *text);
int benchio_mounted(const char *path, struct mounted *mounted);
int benchio_lustre_mdt(const char *path, int32_t *index);
void benchio_end_program(void);
int benchio_run_program(const char *words, int32_t seconds, char *output, char *complaint,
                        int32_t size);

/* Sets of files. */
int64_t benchio_set_file_bytes(const struct file_set *set, int64_t file);
int64_t benchio_set_bytes(const struct file_set *set);
int64_t benchio_set_file_of(const struct file_set *set, int64_t sample);
int64_t benchio_set_largest(const struct file_set *set);
void benchio_set_path(const struct file_set *set, const char *directory, int64_t file, char *path);
void benchio_set_fill(const struct file_set *set, int64_t file, int64_t offset, int64_t bytes,
                      void *to);
int64_t benchio_set_sample(const struct file_set *set, int64_t order, int64_t place);
void benchio_set_make_state(const struct file_set *set, int64_t rank, unsigned char *state);
int benchio_set_act(int32_t action, const struct file_set *set, const char *directory,
                    int64_t from, int64_t step, int *fds, unsigned char *state,
                    struct sight *sight);
int benchio_set_remove_directories(const struct file_set *set, const char *directory);
int benchio_set_read(const struct file_set *set, const char *directory, int64_t order,
                     int64_t from, int64_t to, unsigned char *buffer, uint64_t *digests,
                     double seconds[5], int64_t *place, int32_t *fault);
int64_t benchio_set_marks(const struct file_set *set, int64_t from, int64_t to);
int benchio_set_compare(const struct file_set *set, int64_t order, int64_t from, int64_t to,
                        unsigned char *buffer, const uint64_t *digests, int64_t *place,
                        int64_t *marks);
int64_t benchio_set_difference(const struct file_set *set, const char *directory, int64_t file);

/* Names. */
void benchio_metadata_hashes(int32_t rank, int64_t items, uint64_t hashes[3]);
int benchio_do_to_names(int32_t action, char kind, const char *directory, int32_t rank,
                        int64_t *item, int64_t end, int64_t key, int32_t *fault);
int64_t benchio_metadata_bytes(int64_t items);
int benchio_metadata_list(const char *directory, int32_t first, int32_t ranks, int64_t items,
                          int32_t from, int32_t many, int8_t *seen, int64_t counts[3],
                          uint64_t hashes[3], char *stranger, int32_t size);
int benchio_metadata_sync(const char *directory);

/* Single calls. */
int benchio_timed_call(int32_t action, const char *path, int32_t *fd, void *block, int64_t bytes,
                       int64_t *amount, int64_t *numbers, int64_t *ns);
int64_t benchio_wait_until(int64_t ns);

/* Of Fortran: watchdog.f90, for small_writes.c. */
int32_t benchio_stripe_places(int32_t length, const char *path, int64_t bytes, int32_t most,
                              int64_t *offsets, int32_t *osts);

/* What ends a run early: ends.c notes it, watchdog.c acts on it, notice.c tells rank 0, and
 * small_writes.c looks at the filesystem. */
const char *benchio_signal_name(int number);
void benchio_catch_ends(int32_t has_watchdog);
int benchio_told_to_end(void);
int benchio_is_warned(void);
int benchio_is_ended_inside(void);
int32_t benchio_ended_in_words(char *call, int32_t call_size, char *text, int32_t size);
_Noreturn void benchio_exit(int status);
_Noreturn void benchio_exit_at_once(int status);
void benchio_listen(void *text, int32_t size);
void benchio_know_listener(const void *text);
int benchio_send_notice(const struct notice *notice);
int benchio_wait_for_notice(struct notice *notice, int milliseconds);
void benchio_try_at(const char *probe, const char *written, int64_t bytes);
int benchio_met_in_words(char *text, int size, int is_beside_tried);
void benchio_diagnose(const char *message, char *text, int32_t size);
void benchio_wait_for(const atomic_int *value, const atomic_int *other, int not_known, int most);
int benchio_try_small_writes(int is_beside_tried);
double benchio_stopped_seconds(void);
void benchio_report_by(reporter *report);
void benchio_bound(int32_t seconds);
void benchio_unbound(void);
void benchio_has_ended(int32_t status);
int32_t benchio_end_due(int32_t is_between_rounds, char *name, int32_t size);
int benchio_start_thread(void *(*work)(void *), size_t stack);
int32_t benchio_start_watchdog(int32_t rank, const char *host);
void benchio_guard(const char *files, const char *companions, const char *probe,
                   const char *directories, const char *written, int64_t bytes);
void benchio_watch(int32_t seconds, int32_t delay, const char *phase, const char *place,
                   const char *backend, int32_t probes);
void benchio_watch_failed(int32_t seconds, int32_t delay, const char *failure,
                          const struct notice *met, int32_t probes, int32_t may_be_cut,
                          int32_t tells);
void benchio_rest(void);
