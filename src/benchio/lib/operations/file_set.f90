!> A set of many files, through file_set.c: samples of one size, a tree, or a checkpoint.
module benchio_file_set
    use, intrinsic :: iso_c_binding, only: c_char, c_double, c_int, c_int32_t, c_int64_t, &
        c_int8_t, c_null_char
    use, intrinsic :: iso_fortran_env, only: int64
    use benchio_posix, only: fortran_text
    implicit none (type, external)
    private

    public :: c_act, c_compare, c_difference, c_fill, c_make_state, c_read, c_remove_directories
    public :: file_bytes, file_of, file_set_bytes, largest_sample, marks_of_samples, path_in_set
    public :: sample_at

    !> As file_set.c numbers what is done to each file of a rank; the call that this is.
    integer(c_int32_t), parameter, public :: do_write = 1, do_forget = 2, do_confirm = 3, &
        do_unlink = 4, do_make = 5, do_open = 6, do_put = 7, do_fsync = 8, do_close = 9
    character(*), parameter, public :: calls(9) = [character(13) :: 'write', 'posix_fadvise', &
        'witness', 'unlink', 'open', 'open', 'pwrite', 'fsync', 'close']

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

    !> What is seen where something is done to files.
    type, bind(C), public :: sight
        integer(c_int64_t) :: file = 0              !! that failed or is wrong
        integer(c_int64_t) :: byte = -1             !! of it that is wrong
        integer(c_int64_t) :: confirmed = 0         !! bytes
        integer(c_int64_t) :: in_memory = 0         !! bytes; -1: nobody knows
        integer(c_int64_t) :: unsynced = 0          !! bytes; -1: nobody knows
        integer(c_int32_t) :: fault = 0             !! 0: none
    end type sight

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

        integer(c_int64_t) function sample_at(set, order, place) bind(C, name='benchio_set_sample')
            import :: c_int64_t, file_set
            type(file_set), intent(in) :: set
            integer(c_int64_t), value :: order, place
        end function sample_at

        integer(c_int64_t) function file_of(set, sample) bind(C, name='benchio_set_file_of')
            import :: c_int64_t, file_set
            type(file_set), intent(in) :: set
            integer(c_int64_t), value :: sample
        end function file_of

        integer(c_int64_t) function marks_of_samples(set, from, to) &
            bind(C, name='benchio_set_marks')
            import :: c_int64_t, file_set
            type(file_set), intent(in) :: set
            integer(c_int64_t), value :: from, to
        end function marks_of_samples

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

        !> Does one thing to the files of the units from, from + step, and so on.
        integer(c_int) function c_act(action, set, directory, from, step, fds, state, seen) &
            bind(C, name='benchio_set_act')
            import :: c_char, c_int, c_int32_t, c_int64_t, c_int8_t, file_set, sight
            integer(c_int32_t), value :: action
            type(file_set), intent(in) :: set
            character(kind=c_char), intent(in) :: directory(*)
            integer(c_int64_t), value :: from, step
            integer(c_int), intent(inout) :: fds(*)
            integer(c_int8_t), intent(in) :: state(*)
            type(sight), intent(out) :: seen
        end function c_act

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
