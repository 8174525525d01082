!> Writes JSON text (RFC 8259) piece by piece.
!>
!> A member of an object is given its key; an element of an array none. Nesting is the caller's:
!> each open needs its close.
module benchio_json_writer
    use, intrinsic :: ieee_arithmetic, only: ieee_is_finite
    use, intrinsic :: iso_fortran_env, only: int64, real64
    use benchio_text, only: decimal
    implicit none (type, external)
    private

    type, public :: json_writer
        private
        character(:), allocatable :: buffer
        integer(int64) :: used = 0
        integer :: depth = 0
        logical :: first = .true.
    contains
        procedure :: open_object
        procedure :: close_object
        procedure :: open_array
        procedure :: close_array
        procedure :: text
        procedure :: null
        generic :: add => add_string, add_integer, add_long, add_real, add_logical, add_longs
        procedure, private :: add_string
        procedure, private :: add_integer
        procedure, private :: add_long
        procedure, private :: add_real
        procedure, private :: add_logical
        procedure, private :: add_longs
        procedure, private :: append
        procedure, private :: begin
        procedure, private :: open_with
        procedure, private :: close_with
    end type json_writer

contains

    subroutine open_object(self, key)
        class(json_writer), intent(inout) :: self
        character(*), intent(in), optional :: key

        call self%open_with('{', key)
    end subroutine open_object

    subroutine close_object(self)
        class(json_writer), intent(inout) :: self

        call self%close_with('}')
    end subroutine close_object

    subroutine open_array(self, key)
        class(json_writer), intent(inout) :: self
        character(*), intent(in), optional :: key

        call self%open_with('[', key)
    end subroutine open_array

    subroutine close_array(self)
        class(json_writer), intent(inout) :: self

        call self%close_with(']')
    end subroutine close_array

    !> The whole text so far.
    function text(self)
        class(json_writer), intent(in) :: self
        character(:), allocatable :: text

        text = self%buffer(:self%used)//new_line('a')
    end function text

    subroutine null(self, key)
        class(json_writer), intent(inout) :: self
        character(*), intent(in), optional :: key

        call self%begin(key)
        call self%append('null')
    end subroutine null

    subroutine add_string(self, value, key)
        class(json_writer), intent(inout) :: self
        character(*), intent(in) :: value
        character(*), intent(in), optional :: key

        call self%begin(key)
        call self%append(quoted(value))
    end subroutine add_string

    subroutine add_integer(self, value, key)
        class(json_writer), intent(inout) :: self
        integer, intent(in) :: value
        character(*), intent(in), optional :: key

        call self%add_long(int(value, int64), key)
    end subroutine add_integer

    subroutine add_long(self, value, key)
        class(json_writer), intent(inout) :: self
        integer(int64), intent(in) :: value
        character(*), intent(in), optional :: key

        call self%begin(key)
        call self%append(decimal(value))
    end subroutine add_long

    !> Nine significant digits; null for infinity and what is not a number, which JSON has none of.
    subroutine add_real(self, value, key)
        class(json_writer), intent(inout) :: self
        real(real64), intent(in) :: value
        character(*), intent(in), optional :: key

        character(24) :: digits

        if (.not. ieee_is_finite(value)) then
            call self%null(key)
            return
        end if
        write (digits, '(es16.8e3)') value
        call self%begin(key)
        call self%append(trim(adjustl(digits)))
    end subroutine add_real

    subroutine add_logical(self, value, key)
        class(json_writer), intent(inout) :: self
        logical, intent(in) :: value
        character(*), intent(in), optional :: key

        call self%begin(key)
        call self%append(trim(merge('true ', 'false', value)))
    end subroutine add_logical

    subroutine add_longs(self, values, key)
        class(json_writer), intent(inout) :: self
        integer(int64), intent(in) :: values(:)
        character(*), intent(in), optional :: key

        integer :: i

        call self%begin(key)
        call self%append('[')
        do i = 1, size(values)
            if (i > 1) call self%append(', ')
            call self%append(decimal(values(i)))
        end do
        call self%append(']')
    end subroutine add_longs

    !> Separator, indentation and key of the next value.
    subroutine begin(self, key)
        class(json_writer), intent(inout) :: self
        character(*), intent(in), optional :: key

        if (.not. self%first) call self%append(',')
        if (self%depth > 0) call self%append(new_line('a')//repeat('  ', self%depth))
        if (present(key)) call self%append(quoted(key)//': ')
        self%first = .false.
    end subroutine begin

    subroutine open_with(self, bracket, key)
        class(json_writer), intent(inout) :: self
        character(1), intent(in) :: bracket
        character(*), intent(in), optional :: key

        call self%begin(key)
        call self%append(bracket)
        self%depth = self%depth + 1
        self%first = .true.
    end subroutine open_with

    subroutine close_with(self, bracket)
        class(json_writer), intent(inout) :: self
        character(1), intent(in) :: bracket

        self%depth = self%depth - 1
        if (.not. self%first) call self%append(new_line('a')//repeat('  ', self%depth))
        call self%append(bracket)
        self%first = .false.
    end subroutine close_with

    subroutine append(self, piece)
        class(json_writer), intent(inout) :: self
        character(*), intent(in) :: piece

        character(:), allocatable :: larger

        if (.not. allocated(self%buffer)) allocate (character(65536) :: self%buffer)
        if (self%used + len(piece) > len(self%buffer)) then
            allocate (character(2*(len(self%buffer) + len(piece))) :: larger)
            larger(:self%used) = self%buffer(:self%used)
            call move_alloc(larger, self%buffer)
        end if
        self%buffer(self%used + 1:self%used + len(piece)) = piece
        self%used = self%used + len(piece)
    end subroutine append

    !> A name of a file may have any bytes: those that are not UTF-8 are U+FFFD, each.
    pure function quoted(value)
        character(*), intent(in) :: value
        character(:), allocatable :: quoted

        character(6) :: escape
        integer :: bytes, i

        quoted = '"'
        i = 1
        do while (i <= len(value))
            bytes = utf8_bytes(value(i:))
            select case (value(i:i))
            case ('"', '\')
                quoted = quoted//'\'//value(i:i)
            case (:achar(31), achar(127))
                write (escape, '("\u",z4.4)') iachar(value(i:i))
                quoted = quoted//escape
            case default
                if (bytes > 0) quoted = quoted//value(i:i + bytes - 1)
                if (bytes == 0) quoted = quoted//'\uFFFD'
            end select
            i = i + max(1, bytes)
        end do
        quoted = quoted//'"'
    end function quoted

    !> Of the character that a text begins with; 0 if it begins with none of UTF-8.
    pure integer function utf8_bytes(text) result(bytes)
        character(*), intent(in) :: text

        integer :: first, i, second

        first = iachar(text(1:1))
        bytes = 0
        if (first < 128) bytes = 1
        if (first >= 194 .and. first <= 244) bytes = 2 + merge(1, 0, first >= 224) &
            + merge(1, 0, first >= 240)
        if (bytes > len(text)) bytes = 0
        if (bytes < 2) return
        second = iachar(text(2:2))
        ! Forms that are longer than need be, halves of pairs, and codes above the last.
        if ((first == 224 .and. second < 160) .or. (first == 237 .and. second > 159) .or. &
            (first == 240 .and. second < 144) .or. (first == 244 .and. second > 143)) bytes = 0
        do i = 2, bytes
            if (iachar(text(i:i)) < 128 .or. iachar(text(i:i)) > 191) bytes = 0
        end do
    end function utf8_bytes

end module benchio_json_writer
