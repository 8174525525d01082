!> A set of files: what they hold, the order of their samples, and what is seen of a wrong one.
program test_file_set
    use, intrinsic :: iso_c_binding, only: c_int8_t, c_int64_t, c_null_char
    use, intrinsic :: iso_fortran_env, only: int64, int8, real64
    use benchio_file_set, only: c_compare, c_confirm, c_difference, c_fill, c_forget, c_read, &
        c_remove, c_remove_directories, c_write, file_bytes, file_set, file_set_bytes, &
        largest_sample, marks_of_samples, path_in_set, sample_at
    use benchio_posix, only: make_directory
    use benchio_phases, only: part_check, part_stat
    use check, only: expect
    implicit none (type, external)

    character(*), parameter :: place = 'file_set_of_test'
    integer, parameter :: missing = 1, other_size = 2, other_content = 3
    !> The last of three files has one sample; a tree has two lowest directories.
    type(file_set), parameter :: samples = file_set(files=3, samples=7, per_file=3, &
        sample_bytes=1200, key=5), tree = file_set(files=20, samples=20, key=6)

    call sizes()
    call contents()
    call orders()
    call files(samples, 2_int64)
    call files(tree, 11_int64)

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
        integer(c_int64_t) :: at, bytes, file, in_memory
        character(:), allocatable :: path, text
        integer :: fault, unit

        call make_directory(place, text)
        call expect(text == '', 'there is room for files')
        do at = 0, 1
            call expect(c_write(set, place//c_null_char, at, 2_int64, file) == 0, 'files are made')
        end do
        call expect(c_forget(set, place//c_null_char, 0_int64, 1_int64, file, in_memory, bytes) &
            == 0, 'files are forgotten')
        call expect_read(set, 0, -1_int64)
        call expect(c_confirm(set, place//c_null_char, 0_int64, 1_int64, file, fault, bytes, &
            in_memory) == 0 .and. fault == 0, 'files are confirmed')
        call expect(bytes == file_set_bytes(set), 'all of them')

        path = path_in_set(set, place, spoilt)
        open (newunit=unit, file=path, access='stream', form='unformatted', action='readwrite')
        read (unit, pos=70) byte
        write (unit, pos=70) ieor(byte, 64_int8)
        close (unit)
        call expect_read(set, other_content, spoilt)
        call expect(c_difference(set, place//c_null_char, spoilt) == 69, 'the byte is named')
        call expect(c_confirm(set, place//c_null_char, 0_int64, 1_int64, file, fault, bytes, &
            in_memory) == 0 .and. fault == other_content .and. file == spoilt, &
            'the witness sees the byte')

        open (newunit=unit, file=path, access='stream', form='unformatted', status='replace')
        write (unit) byte
        close (unit)
        call expect_read(set, other_size, spoilt)
        open (newunit=unit, file=path)
        close (unit, status='delete')
        call expect_read(set, missing, spoilt)
        call expect(c_confirm(set, place//c_null_char, 0_int64, 1_int64, file, fault, bytes, &
            in_memory) == 0 .and. fault == missing, 'the witness sees that a file is gone')

        call expect(c_remove(set, place//c_null_char, 0_int64, 1_int64, file) /= 0 &
            .and. file == spoilt, 'what cannot be removed is named')
        call expect(c_remove_directories(set, place//c_null_char) == 0, 'nothing is left')
    end subroutine files

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
