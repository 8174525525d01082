!> The innermost message on HDF5's error stack, which its Fortran interface does not give.
module benchio_hdf5_error
    use, intrinsic :: iso_c_binding, only: c_associated, c_char, c_f_pointer, c_funloc, c_funptr, &
        c_int, c_int64_t, c_loc, c_null_char, c_ptr
    use hdf5, only: hid_t
    use benchio_failure, only: exit_io, failure
    implicit none (type, external)
    private

    public :: check_hdf5

    !> An hid_t as C knows it: it has 32 bits in HDF5 1.8 and 64 bits since 1.10.
    integer, parameter, public :: c_hid_t = merge(c_int, c_int64_t, hid_t == c_int)

    integer(c_hid_t), parameter :: default_stack = 0    ! H5E_DEFAULT
    integer(c_int), parameter :: innermost_first = 0      ! H5E_WALK_UPWARD
    integer, parameter :: text_size = 1024

    !> H5E_error2_t.
    type, bind(C) :: error_record
        integer(c_hid_t) :: class_id, major, minor
        integer(c_int) :: line
        type(c_ptr) :: function_name, file_name, description
    end type error_record

    interface
        integer(c_int) function h5ewalk(stack, direction, visit, data) bind(C, name='H5Ewalk2')
            import :: c_funptr, c_hid_t, c_int, c_ptr
            integer(c_hid_t), value :: stack
            integer(c_int), value :: direction
            type(c_funptr), value :: visit
            type(c_ptr), value :: data
        end function h5ewalk
    end interface

contains

    !> Records an unsuccessful return code of an HDF5 call.
    subroutine check_hdf5(error, code, call, path)
        type(failure), intent(inout) :: error
        integer, intent(in) :: code
        character(*), intent(in) :: call, path

        character(text_size), target :: text
        integer(c_int) :: ignored

        if (code >= 0) return
        text = ''
        ignored = h5ewalk(default_stack, innermost_first, c_funloc(visit), c_loc(text))
        if (text == '') text = 'failed without a message'
        call error%set(exit_io, call, path, trim(text))
    end subroutine check_hdf5

    !> Keeps the last two descriptions HDF5 walks over first: the innermost one and its reason.
    integer(c_int) function visit(depth, record, data) bind(C, name='benchio_visit_hdf5_error')
        integer(c_int), value :: depth
        type(error_record), intent(in) :: record
        type(c_ptr), value :: data

        character(text_size), pointer :: text
        character(kind=c_char), pointer :: letters(:)
        integer :: i, start

        visit = 0
        if (depth > 1 .or. .not. c_associated(record%description)) return
        call c_f_pointer(data, text)
        call c_f_pointer(record%description, letters, [text_size])
        start = len_trim(text)
        if (start > 0) then
            text(start + 1:) = '; '
            start = start + 2
        end if
        do i = 1, text_size - start
            if (letters(i) == c_null_char) exit
            text(start + i:start + i) = letters(i)
        end do
    end function visit

end module benchio_hdf5_error
