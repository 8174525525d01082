!> A set of many files, through file_set.c: samples of one size, a tree, or a checkpoint.
module benchio_file_set
    use, intrinsic :: iso_c_binding, only: c_char, c_double, c_int, c_int32_t, c_int64_t, &
        c_int8_t, c_null_char
    use, intrinsic :: iso_fortran_env, only: int64
    use benchio_posix, only: fortran_text
    implicit none (type, external)
    private

    public :: c_close, c_compare, c_confirm, c_difference, c_fill, c_forget, c_make_state, c_open
    public :: c_put_state, c_read, c_remove, c_remove_directories, c_sync, c_sync_files, c_write

    !> As file_set.c numbers what is found wrong.
    character(*), parameter, public :: faults(3) = [character(47) :: 'it is missing', &
        'it has not the size that its maker gave it', &
        'it has not the content that its maker gave it']
    integer, parameter, public :: fault_of_content = 3

    integer, parameter :: path_size = 4096

    !> The files, and the samples in them that a round reads.
    type, bind(C), public :: file_set
        integer(c_int64_t) :: files = 0
        integer(c_int64_t) :: samples = 0           !! of all files
        integer(c_int64_t) :: per_file = 1          !! samples; the last file may have fewer
        integer(c_int64_t) :: sample_bytes = 0      !! 0: a tree, whose files differ in size
        integer(c_int64_t) :: key = 0               !! of the content
        !> Of a checkpoint, so many ranks: its last samples are one of each, all in the last file.
        integer(c_int64_t) :: shared = 0
    end type file_set

    interface
        integer(c_int64_t) function file_set_bytes(set) bind(C, name='benchio_set_bytes')
            import :: c_int64_t, file_set
            type(file_set), intent(in) :: set
        end function file_set_bytes

        integer(c_int64_t) function file_bytes(set, file) bind(C, name='benchio_set_file_bytes')
            import :: c_int64_t, file_set
            type(file_set), intent(in) :: set
            integer(c_int64_t), value :: file
        end function file_bytes

        integer(c_int64_t) function largest_sample(set) bind(C, name='benchio_set_largest')
            import :: c_int64_t, file_set
            type(file_set), intent(in) :: set
        end function largest_sample

        integer(c_int64_t) function sample_at(set, order, place) &
            bind(C, name='benchio_set_sample')
            import :: c_int64_t, file_set
            type(file_set), intent(in) :: set
            integer(c_int64_t), value :: order, place
        end function sample_at

        integer(c_int64_t) function file_of(set, sample) bind(C, name='benchio_set_file_of')
            import :: c_int64_t, file_set
            type(file_set), intent(in) :: set
            integer(c_int64_t), value :: sample
        end function file_of

        subroutine c_path(set, directory, file, path) bind(C, name='benchio_set_path')
            import :: c_char, c_int64_t, file_set
            type(file_set), intent(in) :: set
            character(kind=c_char), intent(in) :: directory(*)
            integer(c_int64_t), value :: file
            character(kind=c_char), intent(out) :: path(*)
        end subroutine c_path

        subroutine c_fill(set, file, offset, bytes, to) bind(C, name='benchio_set_fill')
            import :: c_int64_t, c_int8_t, file_set
            type(file_set), intent(in) :: set
            integer(c_int64_t), value :: file, offset, bytes
            integer(c_int8_t), intent(inout) :: to(*)
        end subroutine c_fill

        integer(c_int) function c_write(set, directory, from, step, file) &
            bind(C, name='benchio_set_write')
            import :: c_char, c_int, c_int64_t, file_set
            type(file_set), intent(in) :: set
            character(kind=c_char), intent(in) :: directory(*)
            integer(c_int64_t), value :: from, step
            integer(c_int64_t), intent(out) :: file
        end function c_write

        integer(c_int) function c_sync(directory) bind(C, name='benchio_metadata_sync')
            import :: c_char, c_int
            character(kind=c_char), intent(in) :: directory(*)
        end function c_sync

        integer(c_int) function c_forget(set, directory, from, step, file, in_memory, unsynced) &
            bind(C, name='benchio_set_forget')
            import :: c_char, c_int, c_int64_t, file_set
            type(file_set), intent(in) :: set
            character(kind=c_char), intent(in) :: directory(*)
            integer(c_int64_t), value :: from, step
            integer(c_int64_t), intent(out) :: file, in_memory, unsynced
        end function c_forget

        integer(c_int) function c_confirm(set, directory, from, step, file, fault, confirmed, &
            in_memory) bind(C, name='benchio_set_confirm')
            import :: c_char, c_int, c_int32_t, c_int64_t, file_set
            type(file_set), intent(in) :: set
            character(kind=c_char), intent(in) :: directory(*)
            integer(c_int64_t), value :: from, step
            integer(c_int64_t), intent(out) :: file, confirmed, in_memory
            integer(c_int32_t), intent(out) :: fault
        end function c_confirm

        integer(c_int) function c_remove(set, directory, from, step, file) &
            bind(C, name='benchio_set_remove')
            import :: c_char, c_int, c_int64_t, file_set
            type(file_set), intent(in) :: set
            character(kind=c_char), intent(in) :: directory(*)
            integer(c_int64_t), value :: from, step
            integer(c_int64_t), intent(out) :: file
        end function c_remove

        integer(c_int) function c_remove_directories(set, directory) &
            bind(C, name='benchio_set_remove_directories')
            import :: c_char, c_int, file_set
            type(file_set), intent(in) :: set
            character(kind=c_char), intent(in) :: directory(*)
        end function c_remove_directories

        subroutine c_make_state(set, rank, state) bind(C, name='benchio_set_make_state')
            import :: c_int64_t, c_int8_t, file_set
            type(file_set), intent(in) :: set
            integer(c_int64_t), value :: rank
            integer(c_int8_t), intent(inout) :: state(*)
        end subroutine c_make_state

        integer(c_int) function c_open(set, directory, rank, makes, fds, file) &
            bind(C, name='benchio_set_open')
            import :: c_char, c_int, c_int64_t, file_set
            type(file_set), intent(in) :: set
            character(kind=c_char), intent(in) :: directory(*)
            integer(c_int64_t), value :: rank
            integer(c_int), value :: makes
            integer(c_int), intent(inout) :: fds(*)
            integer(c_int64_t), intent(out) :: file
        end function c_open

        integer(c_int) function c_put_state(set, rank, state, fds, file) &
            bind(C, name='benchio_set_put_state')
            import :: c_int, c_int64_t, c_int8_t, file_set
            type(file_set), intent(in) :: set
            integer(c_int64_t), value :: rank
            integer(c_int8_t), intent(in) :: state(*)
            integer(c_int), intent(in) :: fds(*)
            integer(c_int64_t), intent(out) :: file
        end function c_put_state

        integer(c_int) function c_sync_files(set, rank, fds, file) &
            bind(C, name='benchio_set_sync_files')
            import :: c_int, c_int64_t, file_set
            type(file_set), intent(in) :: set
            integer(c_int64_t), value :: rank
            integer(c_int), intent(in) :: fds(*)
            integer(c_int64_t), intent(out) :: file
        end function c_sync_files

        integer(c_int) function c_close(set, rank, fds, file) bind(C, name='benchio_set_close')
            import :: c_int, c_int64_t, file_set
            type(file_set), intent(in) :: set
            integer(c_int64_t), value :: rank
            integer(c_int), intent(inout) :: fds(*)
            integer(c_int64_t), intent(out) :: file
        end function c_close

        integer(c_int) function c_read(set, directory, order, from, to, buffer, digests, seconds, &
            place, fault) bind(C, name='benchio_set_read')
            import :: c_char, c_double, c_int, c_int32_t, c_int64_t, c_int8_t, file_set
            type(file_set), intent(in) :: set
            character(kind=c_char), intent(in) :: directory(*)
            integer(c_int64_t), value :: order, from, to
            integer(c_int8_t), intent(inout) :: buffer(*)
            integer(c_int64_t), intent(inout) :: digests(*)
            real(c_double), intent(inout) :: seconds(*)
            integer(c_int64_t), intent(out) :: place
            integer(c_int32_t), intent(out) :: fault
        end function c_read

        integer(c_int64_t) function marks_of_samples(set, from, to) &
            bind(C, name='benchio_set_marks')
            import :: c_int64_t, file_set
            type(file_set), intent(in) :: set
            integer(c_int64_t), value :: from, to
        end function marks_of_samples

        integer(c_int) function c_compare(set, order, from, to, buffer, digests, place, marks) &
            bind(C, name='benchio_set_compare')
            import :: c_int, c_int64_t, c_int8_t, file_set
            type(file_set), intent(in) :: set
            integer(c_int64_t), value :: order, from, to
            integer(c_int8_t), intent(inout) :: buffer(*)
            integer(c_int64_t), intent(in) :: digests(*)
            integer(c_int64_t), intent(out) :: place, marks
        end function c_compare

        integer(c_int64_t) function c_difference(set, directory, file) &
            bind(C, name='benchio_set_difference')
            import :: c_char, c_int64_t, file_set
            type(file_set), intent(in) :: set
            character(kind=c_char), intent(in) :: directory(*)
            integer(c_int64_t), value :: file
        end function c_difference
    end interface

    public :: file_bytes, file_of, file_set_bytes, largest_sample, marks_of_samples, path_in_set
    public :: sample_at

contains

    !> Returns the path of a file.
    function path_in_set(set, directory, file) result(path)
        type(file_set), intent(in) :: set
        character(*), intent(in) :: directory
        integer(int64), intent(in) :: file
        character(:), allocatable :: path

        character(kind=c_char) :: text(path_size)

        call c_path(set, directory//c_null_char, file, text)
        path = fortran_text(text)
    end function path_in_set

end module benchio_file_set
