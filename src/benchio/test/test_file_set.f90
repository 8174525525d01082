!> A set of files: what they hold, the order of their samples, and what is seen of a wrong one.
program test_file_set
    use, intrinsic :: iso_c_binding, only: c_int, c_int32_t, c_int8_t, c_int64_t, c_null_char
    use, intrinsic :: iso_fortran_env, only: int64, int8, real64
    use benchio_file_set, only: c_act, c_compare, c_difference, c_fill, c_make_state, c_read, &
        c_remove_directories, do_close, do_confirm, do_forget, do_fsync, do_make, do_put, &
        do_unlink, do_write, file_bytes, file_of, file_set, file_set_bytes, largest_sample, &
        marks_of_samples, path_in_set, sample_at, sight
    use benchio_posix, only: attempt, make_directory
    use benchio_phases, only: part_check, part_stat
    use check, only: expect
    implicit none (type, external)

    character(*), parameter :: place = 'file_set_of_test'
    integer, parameter :: missing = 1, other_size = 2, other_content = 3
    !> The last of three files has one sample; a tree has two lowest directories.
    type(file_set), parameter :: samples = file_set(files=3, samples=7, per_file=3, &
        sample_bytes=1200, key=5), tree = file_set(files=20, samples=20, key=6)

    !> Of a checkpoint.
    integer(c_int) :: fds(3)
    integer(c_int8_t) :: state(3600)
    type(sight) :: seen

    call sizes()
    call contents()
    call orders()
    call files(samples, 2_int64)
    call files(tree, 11_int64)
    call checkpoint()

contains

    subroutine sizes()
        integer(int64) :: file

        call expect(all([(file_bytes(samples, file), file=0, 2)] == [3600_int64, 3600_int64, &
            1200_int64]), 'the last file has what is left')
        call expect(file_set_bytes(samples) == 7*1200, 'samples come to the bytes of all files')
        call expect(all([(file_bytes(tree, file), file=0, 3)] == [80_int64, 150_int64, 140_int64, &
            260_int64]), 'a size doubles with each bit of the number')
        call expect(file_bytes(tree, 4095_int64) == 5*4096*9, 'to the largest')
        call expect(file_set_bytes(tree) == sum([(file_bytes(tree, file), file=0, 19)]), &
            'files of a tree come to its bytes')
        call expect(path_in_set(tree, 'x', 4660_int64) == 'x/d1/d2/d3/f0004660', 'a tree is deep')
        call expect(path_in_set(samples, 'x', 2_int64) == 'x/s0000002', 'samples are not')
    end subroutine sizes

    !> No two words are alike, and a part is that of the whole.
    subroutine contents()
        integer(int8) :: other(1200), part(600), whole(1200)
        integer(int64) :: words(150), more(150)
        integer :: i, k

        call c_fill(samples, 1_int64, 0_int64, 1200_int64, whole)
        call c_fill(samples, 1_int64, 400_int64, 600_int64, part)
        call expect(all(part == whole(401:1000)), 'a part holds what the whole has there')
        call c_fill(samples, 2_int64, 0_int64, 1200_int64, other)
        words = transfer(whole, words)
        more = transfer(other, more)
        call expect(.not. any([((words(i) == more(k), i=1, 150), k=1, 150)]), &
            'another file holds other words')
        call expect(count([((words(i) == words(k), i=1, 150), k=1, 150)]) == 150, &
            'no word is there twice')
    end subroutine contents

    !> Each sample once, in no order of their own, and in another order in another round.
    subroutine orders()
        integer, parameter :: sizes(*) = [1, 2, 3, 16, 17, 1000]
        type(file_set) :: set
        integer(int64), allocatable :: first(:), second(:)
        integer(int64) :: k
        integer :: i

        do i = 1, size(sizes)
            set = file_set(files=1, samples=sizes(i), per_file=sizes(i), sample_bytes=8)
            first = [(sample_at(set, 77_int64, k), k=0, sizes(i) - 1)]
            second = [(sample_at(set, 78_int64, k), k=0, sizes(i) - 1)]
            call expect(all([(count(first == k) == 1, k=0, sizes(i) - 1)]), 'each sample once')
        end do
        call expect(count(first == [(k, k=0, 999)]) < 20, 'samples are shuffled')
        call expect(count(first(2:) == first(:999) + 1) < 20, 'neighbours do not follow each other')
        call expect(count(first == second) < 20, 'another round shuffles otherwise')
        call expect(sum(first(:500)) > 200000 .and. sum(first(:500)) < 300000, &
            'half of the ranks have samples of the whole')
        call expect(all([(sample_at(tree, 77_int64, k), k=0, 19)] == [(k, k=0, 19)]), &
            'a tree is read in its order')
    end subroutine orders

    !> Two ranks make the files; this one reads them as they are, changed, cut and gone.
    subroutine files(set, spoilt)
        type(file_set), intent(in) :: set
        integer(int64), intent(in) :: spoilt        !! file

        integer(int8) :: byte
        integer(c_int64_t) :: at
        character(:), allocatable :: path, text
        integer :: unit

        call attempt(make_directory, place, text)
        call expect(text == '', 'there is room for files')
        do at = 0, 1
            call expect(done(do_write, set, at, 2_int64), 'files are made')
        end do
        call expect(done(do_forget, set, 0_int64, 1_int64), 'files are forgotten')
        call expect_read(set, 0, -1_int64)
        call expect(done(do_confirm, set, 0_int64, 1_int64) .and. seen%fault == 0, &
            'files are confirmed')
        call expect(seen%confirmed == file_set_bytes(set), 'all of them')

        path = path_in_set(set, place, spoilt)
        open (newunit=unit, file=path, access='stream', form='unformatted', action='readwrite')
        read (unit, pos=70) byte
        write (unit, pos=70) ieor(byte, 64_int8)
        close (unit)
        call expect_read(set, other_content, spoilt)
        call expect(c_difference(set, place//c_null_char, spoilt) == 69, 'the byte is named')
        call expect(done(do_confirm, set, 0_int64, 1_int64) .and. seen%fault == other_content &
            .and. seen%file == spoilt .and. seen%byte == 69, 'the witness sees the byte')

        open (newunit=unit, file=path, access='stream', form='unformatted', status='replace')
        write (unit) byte
        close (unit)
        call expect_read(set, other_size, spoilt)
        open (newunit=unit, file=path)
        close (unit, status='delete')
        call expect_read(set, missing, spoilt)
        call expect(done(do_confirm, set, 0_int64, 1_int64) .and. seen%fault == missing, &
            'the witness sees that a file is gone')

        call expect(.not. done(do_unlink, set, 0_int64, 1_int64) .and. seen%file == spoilt, &
            'what cannot be removed is named')
        call expect(c_remove_directories(set, place//c_null_char) == 0, 'nothing is left')
    end subroutine files

    !> Three ranks write two shards each and a part of a shared file; what two of them have written
    !> is read from the last one on.
    subroutine checkpoint()
        type(file_set), parameter :: set = file_set(files=7, samples=9, sample_bytes=1200, key=7, &
            shared=3)
        integer(int64), parameter :: spoilt = 6
        integer(c_int8_t) :: buffer(1200), whole(3600)
        integer(c_int64_t) :: at, rank
        integer :: fault, i, unit
        character(:), allocatable :: message

        call expect(file_set_bytes(set) == 9*1200 .and. file_bytes(set, 5_int64) == 1200 &
            .and. file_bytes(set, spoilt) == 3600, 'the last file has a part of each rank')
        call expect(all([(sample_at(set, 0_int64, at), at=0, 8)] &
            == [integer(int64) :: 0, 3, 6, 1, 4, 7, 2, 5, 8]), 'ranks come one after the other')
        call expect(sample_at(set, 0_int64, 9_int64) == 0, 'the first follows the last')
        call expect(all([(file_of(set, at), at=0, 8)] &
            == [integer(int64) :: 0, 1, 2, 3, 4, 5, 6, 6, 6]), 'the last samples share a file')
        call attempt(make_directory, place, message)
        do rank = 0, 2
            call c_make_state(set, rank, state)
            call expect(done(do_make, set, rank, 3_int64), 'it opens')
            call expect(done(do_put, set, rank, 3_int64), 'it writes')
            call expect(done(do_fsync, set, rank, 3_int64), 'it syncs')
            call expect(done(do_close, set, rank, 3_int64), 'it closes')
            call expect(all(fds == -1), 'all that it has opened')
            if (rank /= 1) cycle
            call c_fill(set, spoilt, 0_int64, 3600_int64, whole)
            call expect(all(state(2401:) == whole(1201:2400)), 'a state ends with its part')
            call c_fill(set, 4_int64, 0_int64, 1200_int64, buffer)
            call expect(all(state(1201:2400) == buffer), 'a state has shards of its own')
        end do
        call expect(.not. done(do_make, set, 1_int64, 3_int64) .and. seen%file == 1, &
            'a shard that is there is named')
        do i = 1, 2
            call read_two(set, fault)
            call expect(fault == merge(0, other_content, i == 1), 'what is wrong is seen')
            call expect(done(do_confirm, set, 1_int64, 3_int64) .and. seen%fault == 0 &
                .and. seen%confirmed == 3600, 'a rank''s is confirmed')
            call expect(done(do_confirm, set, 2_int64, 3_int64) .and. seen%fault == merge(0, &
                other_content, i == 1), 'the witness sees the byte')
            if (i == 2) call expect(seen%file == spoilt .and. seen%byte == 3599, 'and where')
            if (i == 2) exit
            open (newunit=unit, file=path_in_set(set, place, spoilt), access='stream', &
                form='unformatted', action='readwrite')
            write (unit, pos=3600) not(whole(3600))
            close (unit)
        end do
        do rank = 0, 2
            call expect(done(do_unlink, set, rank, 3_int64), 'it goes')
        end do
        call expect(c_remove_directories(set, place//c_null_char) == 0, 'nothing is left of it')
    end subroutine checkpoint

    !> Does one thing to a rank's files.
    logical function done(action, set, rank, ranks)
        integer(c_int32_t), intent(in) :: action
        type(file_set), intent(in) :: set
        integer(int64), intent(in) :: rank, ranks

        done = c_act(action, set, place//c_null_char, rank, ranks, fds, state, seen) == 0
    end function done

    !> Reads what the last rank of three has written, and then the first.
    subroutine read_two(set, fault)
        type(file_set), intent(in) :: set
        integer, intent(out) :: fault

        integer(c_int8_t) :: buffer(1200)
        integer(c_int64_t) :: at, digests(6), marks
        real(real64) :: seconds(part_check - part_stat + 1)

        seconds = 0
        call expect(c_read(set, place//c_null_char, 0_int64, 6_int64, 12_int64, buffer, digests, &
            seconds, at, fault) == 0, 'shards are read')
        if (fault == 0) fault = c_compare(set, 0_int64, 6_int64, 12_int64, buffer, digests, at, &
            marks)
        if (fault == 0) call expect(marks == sum([(marks_of_samples(set, at, at + 1), at=0, 6, &
            3)]) + sum([(marks_of_samples(set, at, at + 1), at=2, 8, 3)]), 'those of two ranks')
    end subroutine read_two

    !> Reads all samples, and meets this fault in this file; 0: none.
    subroutine expect_read(set, fault, file)
        type(file_set), intent(in) :: set
        integer, intent(in) :: fault
        integer(int64), intent(in) :: file

        integer(c_int8_t), allocatable :: buffer(:)
        integer(c_int64_t), allocatable :: digests(:)
        integer(c_int64_t) :: at, marks
        real(real64) :: seconds(part_check - part_stat + 1)
        integer :: met

        allocate (buffer(largest_sample(set)), digests(set%samples))
        seconds = 0
        call expect(c_read(set, place//c_null_char, 9_int64, 0_int64, set%samples, buffer, &
            digests, seconds, at, met) == 0, 'files are read')
        if (met == 0) met = c_compare(set, 9_int64, 0_int64, set%samples, buffer, digests, at, &
            marks)
        call expect(met == fault, 'what is wrong is seen')
        if (fault > 0) call expect(sample_at(set, 9_int64, at)/set%per_file == file, &
            'and where')
        if (fault == 0) call expect(marks == marks_of_samples(set, 0_int64, set%samples) &
            .and. minval(seconds(2:)) > 0, 'each sample is read once, and each call takes time')
        if (fault > 0) return
        call expect(c_compare(set, 9_int64, 0_int64, set%samples - 1, buffer, digests, at, &
            marks) == 0 .and. marks < marks_of_samples(set, 0_int64, set%samples), &
            'a sample that is left out is missed')
    end subroutine expect_read

end program test_file_set
