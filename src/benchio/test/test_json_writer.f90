!> Nesting, separators, unknown values and escapes.
program test_json_writer
    use, intrinsic :: ieee_arithmetic, only: ieee_positive_inf, ieee_quiet_nan, ieee_value
    use, intrinsic :: iso_fortran_env, only: int64, real64
    use benchio_json_writer, only: json_writer
    use benchio_text, only: decimal, unset
    use check, only: expect
    implicit none (type, external)

    character(1), parameter :: lf = new_line('a')
    type(json_writer) :: json
    real(real64), parameter :: zero = 0
    character(:), allocatable :: characters
    integer :: i

    call json%put('text', 'a "quoted" \ '//achar(10)//achar(1)//'name  ')
    call json%put_numbers('sizes', [1_int64, huge(1_int64)])
    call json%enter('none', ']')
    call json%enter('nothing', '}')
    call json%put('deep.in.it', .true.)
    call json%put('deep.in.that', 7)
    call json%put('deep.inside', .false.)
    call json%put('deeper', unset)
    call json%put('list[1]', '')
    call json%put('list[2]', -0.5_real64)
    call json%put('list[3]', 0.5_real64)
    call json%put('list[4]', ieee_value(zero, ieee_positive_inf))
    call json%put('list[5]', ieee_value(zero, ieee_quiet_nan))
    call json%put_null('list[6].a[1].b')
    call json%put('list[6].a[2].b', ['x ', 'yz', '  '])
    call json%enter('list[7].c', ']')
    call json%put_verbatim('list[7]', 'd.e[1]', '')
    call expect(json%text() == '{'//lf &
        //'  "text": "a \"quoted\" \\ \u000A\u0001name",'//lf &
        //'  "sizes": [1, 9223372036854775807],'//lf &
        //'  "none": [],'//lf &
        //'  "nothing": {},'//lf &
        //'  "deep": {'//lf &
        //'    "in": {'//lf &
        //'      "it": true,'//lf &
        //'      "that": 7'//lf &
        //'    },'//lf &
        //'    "inside": false'//lf &
        //'  },'//lf &
        //'  "deeper": null,'//lf &
        //'  "list": ['//lf &
        //'    null,'//lf &
        //'    null,'//lf &
        //'    5.00000000E-001,'//lf &
        //'    null,'//lf &
        //'    null,'//lf &
        //'    {'//lf &
        //'      "a": ['//lf &
        //'        {'//lf &
        //'          "b": null'//lf &
        //'        },'//lf &
        //'        {'//lf &
        //'          "b": ['//lf &
        //'            "x",'//lf &
        //'            "yz",'//lf &
        //'            null'//lf &
        //'          ]'//lf &
        //'        }'//lf &
        //'      ]'//lf &
        //'    },'//lf &
        //'    {'//lf &
        //'      "c": [],'//lf &
        //'      "d.e[1]": ""'//lf &
        //'    }'//lf &
        //'  ]'//lf &
        //'}'//lf, 'the text as written')

    json = json_writer()
    characters = 'na'//bytes([195, 175])//'ve '//bytes([226, 130, 172])//bytes([240, 159, 140, 138])
    call json%put('a', characters)
    call expect(json%text() == '{'//lf//'  "a": "'//characters//'"'//lf//'}'//lf, &
        'UTF-8 stays as it is')
    json = json_writer()
    ! Latin-1, too long a form, half of a pair, above the last code, and one that is cut off.
    call json%put('a', 'lat'//bytes([233])//'n'//bytes([192, 175])//bytes([224, 159, 191]) &
        //bytes([237, 160, 128])//bytes([244, 144, 128, 128])//bytes([226, 130]))
    characters = json%text()
    call expect(index(characters, '"lat\uFFFDn'//repeat('\uFFFD', 14)//'"') > 0, &
        'other bytes are replaced: '//characters)

    json = json_writer()
    do i = 1, 20000     ! past the first buffer
        call json%put('list['//decimal(i)//']', '0123456789')
    end do
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
