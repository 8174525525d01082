!> Writes JSON text (RFC 8259): values, each with its path, such as `cases[2].rates.total`.
!>
!> The writer opens the objects and arrays that a path enters, and closes those that it leaves. The
!> members of one object follow each other, and so do the elements of an array, counted from 1. A
!> value that is not known is null: an empty text, `unset`, a real number that is less than 0 or
!> not finite.
module benchio_json_writer
    use, intrinsic :: ieee_arithmetic, only: ieee_is_finite
    use, intrinsic :: iso_fortran_env, only: int64, real64
    use benchio_text, only: decimal, unset
    implicit none (type, external)
    private

    type, public :: json_writer
        private
        character(:), allocatable :: buffer
        integer(int64) :: used = 0
        character(:), allocatable :: at         !! path of the innermost object or array
        character(:), allocatable :: brackets   !! that close it, and all around it after that
        logical :: is_first = .true.            !! nothing is in it yet
    contains
        generic :: put => put_value, put_texts
        procedure :: put_verbatim
        procedure :: put_numbers
        procedure :: put_null
        procedure :: enter                  !! opens an object or array that may stay empty
        procedure :: text
        procedure, private :: put_value
        procedure, private :: put_texts
    end type json_writer

contains

    !> Puts a text without the blanks at its end, an integer of either kind, a real number with
    !> nine significant digits, or a logical; null if it is not known.
    subroutine put_value(self, path, value, is_known)
        class(json_writer), intent(inout) :: self
        character(*), intent(in) :: path
        class(*), intent(in) :: value
        logical, intent(in), optional :: is_known

        character(:), allocatable :: text

        text = value_text(value)
        if (present(is_known)) then
            if (.not. is_known) text = 'null'
        end if
        call put_raw(self, path, text)
    end subroutine put_value

    !> Puts an array, each text on a line of its own.
    subroutine put_texts(self, path, values)
        class(json_writer), intent(inout) :: self
        character(*), intent(in) :: path, values(:)

        integer :: i

        call self%enter(path, ']')
        do i = 1, size(values)
            call self%put(path//'['//decimal(i)//']', values(i))
        end do
    end subroutine put_texts

    !> Puts an array on one line; null if it is not known.
    subroutine put_numbers(self, path, values, is_known)
        class(json_writer), intent(inout) :: self
        character(*), intent(in) :: path
        class(*), intent(in) :: values(:)
        logical, intent(in), optional :: is_known

        character(:), allocatable :: list
        integer :: i

        list = ''
        do i = 1, size(values)
            list = list//', '//value_text(values(i))
        end do
        list = '['//list(3:)//']'
        if (present(is_known)) then
            if (.not. is_known) list = 'null'
        end if
        call put_raw(self, path, list)
    end subroutine put_numbers

    function value_text(value) result(text)
        class(*), intent(in) :: value
        character(:), allocatable :: text

        character(24) :: number

        number = 'null'
        select type (value)
        type is (character(*))
            if (value /= '') then
                text = quoted(trim(value))
                return
            end if
        type is (integer)
            number = decimal(value)
        type is (integer(int64))
            if (value /= unset) number = decimal(value)
        type is (real(real64))
            if (ieee_is_finite(value)) then     ! the order of NaN and 0 would be an exception
                if (value >= 0) write (number, '(es16.8e3)') value
            end if
        type is (logical)
            number = merge('true ', 'false', value)
        class default
            error stop 'benchio: JSON has no such type'
        end select
        text = trim(adjustl(number))
    end function value_text

    !> Puts a member of an object: its key may have any characters, and its text may be empty.
    subroutine put_verbatim(self, object, key, value)
        class(json_writer), intent(inout) :: self
        character(*), intent(in) :: object      !! path
        character(*), intent(in) :: key, value

        call enter(self, object, '}')
        call begin(self, key)
        call append(self, quoted(value))
    end subroutine put_verbatim

    subroutine put_null(self, path)
        class(json_writer), intent(inout) :: self
        character(*), intent(in) :: path

        call put_raw(self, path, 'null')
    end subroutine put_null

    !> Ends the text, and returns it.
    function text(self)
        class(json_writer), intent(inout) :: self
        character(:), allocatable :: text

        call enter(self, '', '}')
        call leave(self)
        text = self%buffer(:self%used)//new_line('a')
    end function text

    !> Puts a value's own text.
    subroutine put_raw(self, path, value)
        type(json_writer), intent(inout) :: self
        character(*), intent(in) :: path, value

        integer :: last

        last = scan(path, '.[', back=.true.)
        if (path(max(1, last):max(1, last)) == '[') then
            call enter(self, path(:last - 1), ']')
            call begin(self, '')
        else
            call enter(self, path(:max(0, last - 1)), '}')
            call begin(self, path(last + 1:))
        end if
        call append(self, value)
    end subroutine put_raw

    !> Closes what a path is not in, and opens what it is in and what it names.
    subroutine enter(self, path, bracket)
        class(json_writer), intent(inout) :: self
        character(*), intent(in) :: path        !! of an object or array; empty: the whole text
        character(1), intent(in) :: bracket     !! that closes it

        integer :: first, last

        if (.not. allocated(self%at)) then
            allocate (character(65536) :: self%buffer)
            self%at = ''
            self%brackets = '}'
            call append(self, '{')
        end if
        do while (index(path//'.', self%at//'.') /= 1 .and. index(path, self%at//'[') /= 1 &
            .and. self%at /= '')
            call leave(self)
            self%at = self%at(:max(0, scan(self%at, '.[', back=.true.) - 1))
        end do
        do while (len(self%at) < len(path))
            first = len(self%at) + 1
            last = first + scan(path(first + 1:)//'.', '.[') - 1
            if (path(first:first) == '[') then
                call begin(self, '')
            else
                call begin(self, path(first + merge(1, 0, path(first:first) == '.'):last))
            end if
            self%brackets = bracket//self%brackets
            if (last < len(path)) self%brackets(1:1) = merge(']', '}', &
                path(last + 1:last + 1) == '[')
            call append(self, merge('[', '{', self%brackets(1:1) == ']'))
            self%is_first = .true.
            self%at = path(:last)
        end do
    end subroutine enter

    !> Puts separator, indentation and key of the next value; an element of an array has no key.
    subroutine begin(self, key)
        type(json_writer), intent(inout) :: self
        character(*), intent(in) :: key

        if (.not. self%is_first) call append(self, ',')
        call append(self, new_line('a')//repeat('  ', len(self%brackets)))
        if (key /= '') call append(self, quoted(key)//': ')
        self%is_first = .false.
    end subroutine begin

    !> Closes the innermost object or array.
    subroutine leave(self)
        type(json_writer), intent(inout) :: self

        character(1) :: bracket

        bracket = self%brackets
        self%brackets = self%brackets(2:)
        if (.not. self%is_first) call append(self, new_line('a')//repeat('  ', len(self%brackets)))
        call append(self, bracket)
        self%is_first = .false.
    end subroutine leave

    subroutine append(self, piece)
        type(json_writer), intent(inout) :: self
        character(*), intent(in) :: piece

        character(:), allocatable :: larger

        if (self%used + len(piece) > len(self%buffer)) then
            allocate (character(2*(len(self%buffer) + len(piece))) :: larger)
            larger(:self%used) = self%buffer(:self%used)
            call move_alloc(larger, self%buffer)
        end if
        self%buffer(self%used + 1:self%used + len(piece)) = piece
        self%used = self%used + len(piece)
    end subroutine append

    !> A text in quotes, with escapes. A file's name may have any bytes: each that is not UTF-8
    !> becomes U+FFFD.
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

    !> Bytes of the character that a text begins with; 0 if it begins with none of UTF-8.
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
        ! Too long a form, half of a pair, or a code above the last, by the second byte (RFC 3629).
        if ((first == 224 .and. second < 160) .or. (first == 237 .and. second > 159) .or. &
            (first == 240 .and. second < 144) .or. (first == 244 .and. second > 143)) bytes = 0
        do i = 2, bytes
            if (iachar(text(i:i)) < 128 .or. iachar(text(i:i)) > 191) bytes = 0
        end do
    end function utf8_bytes

end module benchio_json_writer
