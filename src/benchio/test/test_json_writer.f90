!> Nesting, separators and escapes.
program test_json_writer
    use, intrinsic :: ieee_arithmetic, only: ieee_negative_inf, ieee_positive_inf, &
        ieee_quiet_nan, ieee_value
    use, intrinsic :: iso_fortran_env, only: int64, real64
    use benchio_json_writer, only: json_writer
    use check, only: expect
    implicit none (type, external)

    character(1), parameter :: lf = new_line('a')
    type(json_writer) :: json
    real(real64), parameter :: zero = 0
    character(:), allocatable :: characters
    integer :: i

    call json%open_object()
    call json%add('a "quoted" \ '//achar(10)//achar(1)//'name', 'text')
    call json%add([1_int64, huge(1_int64)], 'sizes')
    call json%open_array('empty')
    call json%close_array()
    call json%open_array('list')
    call json%null()
    call json%add(.true.)
    call json%add(-0.5_real64)
    call json%add(ieee_value(zero, ieee_positive_inf))
    call json%add(ieee_value(zero, ieee_negative_inf))
    call json%add(ieee_value(zero, ieee_quiet_nan))
    call json%close_array()
    call json%close_object()
    call expect(json%text() == '{'//lf &
        //'  "text": "a \"quoted\" \\ \u000A\u0001name",'//lf &
        //'  "sizes": [1, 9223372036854775807],'//lf &
        //'  "empty": [],'//lf &
        //'  "list": ['//lf &
        //'    null,'//lf &
        //'    true,'//lf &
        //'    -5.00000000E-001,'//lf &
        //'    null,'//lf &
        //'    null,'//lf &
        //'    null'//lf &
        //'  ]'//lf &
        //'}'//lf, 'the text as written')

    json = json_writer()
    characters = 'na'//bytes([195, 175])//'ve '//bytes([226, 130, 172])//bytes([240, 159, 140, 138])
    call json%add(characters)
    call expect(json%text() == '"'//characters//'"'//lf, 'what is UTF-8 stays')
    json = json_writer()
    ! Latin-1, too long a form, half of a pair, above the last code, and one that is cut off.
    call json%add('lat'//bytes([233])//'n'//bytes([192, 175])//bytes([224, 159, 191]) &
        //bytes([237, 160, 128])//bytes([244, 144, 128, 128])//bytes([226, 130]))
    call expect(json%text() == '"lat\uFFFDn'//repeat('\uFFFD', 14)//'"'//lf, &
        'and what is not is replaced: '//json%text())

    json = json_writer()
    call json%open_array()
    do i = 1, 20000     ! past the first buffer
        call json%add('0123456789')
    end do
    call json%close_array()
    call expect(len(json%text()) > 20000*12, 'a long text is whole')

contains

    pure function bytes(codes) result(text)
        integer, intent(in) :: codes(:)
        character(size(codes)) :: text

        integer :: i

        do i = 1, size(codes)
            text(i:i) = achar(codes(i))
        end do
    end function bytes

end program test_json_writer
