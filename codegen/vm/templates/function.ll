declare i32 $call(ptr, ptr, ptr, i64)
declare i32 $free(ptr)

define private i1 @${function}.lacks_arrays(ptr %inputs, ptr %outputs) nounwind {
  %no_inputs = icmp eq ptr %inputs, null
  %no_outputs = icmp eq ptr %outputs, null
  %lacks_inputs = and i1 %no_inputs, $has_inputs
  %lacks_outputs = and i1 %no_outputs, $has_outputs
  %lacks_one = or i1 %lacks_inputs, %lacks_outputs
  ret i1 %lacks_one
}

define i32 @$function(ptr %inputs, ptr %outputs, ptr %workspace) nounwind {
  %lacks_arrays = call i1 @${function}.lacks_arrays(ptr %inputs, ptr %outputs)
  br i1 %lacks_arrays, label %refuse_null, label %enter
refuse_null:
  ret i32 $without_arrays
enter:
  br i1 $uses_tiles, label %tiles, label %start
tiles:  ; the system gives a process the tile registers of AMX on request
  %granted = call i64 (i64, ...) @syscall(i64 158, i64 4131, i64 18)
  %has_tiles = icmp eq i64 %granted, 0
  br i1 %has_tiles, label %start, label %no_tiles
no_tiles:
  ret i32 $without_tiles
start:
  %own = alloca [3 x i64]
  store [3 x i64] zeroinitializer, ptr %own
  %absent = icmp eq ptr %workspace, null
  %block = select i1 %absent, ptr %own, ptr %workspace
  %place = getelementptr i64, ptr %block, i64 2
  %owner = load ptr, ptr %place
  %new = icmp eq ptr %owner, null
  %same = icmp eq ptr %owner, $free
  %fits = or i1 %new, %same
  br i1 %fits, label %run, label %refuse
refuse:
  ret i32 $of_another
run:
  store ptr $free, ptr %place
  %status = call i32 $call(ptr %block, ptr %inputs, ptr %outputs, i64 1)
  br i1 %absent, label %release, label %done
release:
  %freed = call i32 $free(ptr %own)
  br label %done
done:
  ret i32 %status
}

define i32 @${function}_shapes(ptr %inputs, ptr %outputs) nounwind {
  %lacks_arrays = call i1 @${function}.lacks_arrays(ptr %inputs, ptr %outputs)
  br i1 %lacks_arrays, label %refuse_null, label %run
refuse_null:
  ret i32 $without_arrays
run:
  %own = alloca [3 x i64]
  store [3 x i64] zeroinitializer, ptr %own
  %status = call i32 $call(ptr %own, ptr %inputs, ptr %outputs, i64 0)
  %freed = call i32 $free(ptr %own)
  ret i32 %status
}
