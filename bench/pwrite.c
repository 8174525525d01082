/* What the system itself can do: every rank writes its block of a 3D array into one file by plain
 * pwrite, a call for each run of bytes that is contiguous in the file, from memory without halo.
 *
 * usage: mpirun -n P*Q*R pwrite FILE NX NY NZ P Q R REPEATS; N* are a rank's. Prints the bytes of
 * all ranks and, a line for each repetition, the slowest rank's seconds. */
#include <fcntl.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void need(int success, const char *what)
{
    if (!success) {
        perror(what);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

static void put(int fd, const char *data, long bytes, long offset)
{
    while (bytes > 0) {
        ssize_t n = pwrite(fd, data, (size_t)bytes, offset);

        need(n > 0, "pwrite");
        data += n;
        bytes -= n;
        offset += n;
    }
}

int main(int count, char **words)
{
    long n[3], grid[3], at[3], runs, run, bytes;
    double *block, seconds, slowest;
    int rank, fd;

    MPI_Init(&count, &words);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (count != 9)
        MPI_Abort(MPI_COMM_WORLD, 2);
    for (int i = 0; i < 3; i++) {
        n[i] = atol(words[2 + i]);
        grid[i] = atol(words[5 + i]);
    }
    at[0] = rank % grid[0] * n[0];
    at[1] = rank / grid[0] % grid[1] * n[1];
    at[2] = rank / grid[0] / grid[1] * n[2];
    run = n[0] * (grid[0] > 1 ? 1 : n[1] * (grid[1] > 1 ? 1 : n[2]));
    runs = n[0] * n[1] * n[2] / run;
    bytes = 8 * n[0] * n[1] * n[2];
    block = malloc((size_t)bytes);
    need(block != NULL, "malloc");
    for (long i = 0; i < bytes / 8; i++)
        block[i] = 1.0 + (double)i;
    if (rank == 0)
        printf("%ld\n", bytes * grid[0] * grid[1] * grid[2]);

    for (int repeat = 0; repeat < atoi(words[8]); repeat++) {
        if (rank == 0) {
            fd = open(words[1], O_CREAT | O_EXCL | O_WRONLY, 0666);
            need(fd >= 0 && close(fd) == 0, words[1]);
        }
        MPI_Barrier(MPI_COMM_WORLD);
        fd = open(words[1], O_WRONLY);
        need(fd >= 0, words[1]);
        MPI_Barrier(MPI_COMM_WORLD);
        seconds = MPI_Wtime();
        for (long i = 0; i < runs; i++) {
            long first = i * run, x = first % n[0], y = first / n[0] % n[1], z = first / n[0] / n[1];

            put(fd, (const char *)(block + first), 8 * run,
                8 * (at[0] + x + n[0] * grid[0] * (at[1] + y + n[1] * grid[1] * (at[2] + z))));
        }
        seconds = MPI_Wtime() - seconds;
        MPI_Reduce(&seconds, &slowest, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
        need(close(fd) == 0, "close");
        MPI_Barrier(MPI_COMM_WORLD);
        if (rank == 0) {
            need(unlink(words[1]) == 0, "unlink");
            printf("%.9f\n", slowest);
        }
    }
    MPI_Finalize();
}
