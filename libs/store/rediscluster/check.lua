[[- /*
One call for all entries of a subject: give back, then all or nothing, whatever
their algorithms. This is a template: script.go unrolls it for the shape of an
ask (its entries' algorithms, which of them are in shadow, whether it gives
back), for Lua spends its time on loops, tables and texts, not on arithmetic.

Everything is decided first; what may write comes last and cannot fail: the pod
has checked every argument, and Redis refuses a script that is out of memory at
its first write. A refusal writes nothing, but for what is given back, times that
a step back of the clock left in the future, and an expiry that an edit to a
slower limit has made too early.

KEYS[1] is the record of token buckets and windows, if the shape has any: the
time at which the key expires (uint32, s), never less than half a grace after
its last counter is full or void, then 20 bytes a rule: tag (uint32), a, b
(doubles). a is the tokens and b the time of the last write, or a the count and
b the beginning of the window. Two rules make 44 bytes, the most that Redis
embeds in a key's entry. Rules that are not asked for are copied undecoded, and
one that takes nothing and has no entry gets none. The length modulo 20, 4, is
the version of this format: another one is an error. The other keys are logs,
sorted sets of attempts: score the time, member the attempt's 8 bytes and its
count (uint32).

ARGV[1] is packed, little-endian, entry by entry:
    bucket  tag I4, rate (tokens a µs) d, burst d, need d, want d [, give d, from d]
    window  tag I4, length (µs) d, count d, need d, want d        [, give d, from d]
    log     attempt c8, length (µs) d, count d, need d, want d    [, give d, from d]
The reply is the time, 1 if the ask passed or 0, then for each entry what was
granted and the state afterwards: a, b; for a log what it counts, the time at
which what is needed will be free (0: it is, or never) and its newest attempt.
Times are µs since 2026-01-01 UTC on this server's clock.
*/ -]]
local call, unpack, pack, sub = redis.call, struct.unpack, struct.pack, string.sub
[[.Clock]]
local [[range $i, $e := .Entries]][[if $i]], [[end]][[$e.Params]][[end]] = unpack('[[.Format]]', ARGV[1])
local ok, dirty = true, false
[[- if .Record]]
local rec = call('GET', KEYS[1])
local exp, far, rest = 0, now, ''
[[- range .Entries]][[if .Bucket]]
local a[[.N]], b[[.N]], p[[.N]] = B[[.N]], now, false
[[- else if .Window]]
local w[[.N]] = now - now % L[[.N]]
local a[[.N]], b[[.N]], p[[.N]] = 0, w[[.N]], false
[[- end]][[end]]
if rec then
  local fits = false
  if #rec == [[.RecordSize]] then
    local e, [[range $i, $e := .InRecord]][[if $i]], [[end]]x[[$e.N]], y[[$e.N]], z[[$e.N]][[end]] = unpack('<I4[[range .InRecord]]I4dd[[end]]', rec)
    if [[range $i, $e := .InRecord]][[if $i]] and [[end]]x[[$e.N]] == t[[$e.N]][[end]] then
      fits, exp = true, e * 1000000
      [[range $i, $e := .InRecord]][[if $i]], [[end]]a[[$e.N]], b[[$e.N]], p[[$e.N]][[end]] = [[range $i, $e := .InRecord]][[if $i]], [[end]]y[[$e.N]], z[[$e.N]], true[[end]]
    end
  end
  if not fits then
    if #rec % 20 ~= 4 then return redis.error_reply('ERR ' .. KEYS[1] .. ' is of no known format: ' .. #rec .. ' bytes') end
    exp = unpack('<I4', rec) * 1000000
    for i = 5, #rec, 20 do
      local t = unpack('<I4', rec, i)
      if t == t[[(index .InRecord 0).N]] then a[[(index .InRecord 0).N]], b[[(index .InRecord 0).N]] = unpack('<dd', rec, i + 4) p[[(index .InRecord 0).N]] = true
      [[- range $i, $e := .InRecord]][[if $i]]
      elseif t == t[[$e.N]] then a[[$e.N]], b[[$e.N]] = unpack('<dd', rec, i + 4) p[[$e.N]] = true
      [[- end]][[end]]
      elseif #rec <= [[.Crowded]] or unpack('<d', rec, i + 12) > now - [[.Stale]] then rest = rest .. sub(rec, i, i + 19) end
    end
  end
end
[[- end]]
[[- range .Entries]]
[[- if .Bucket]]
if b[[.N]] > now then b[[.N]] = now dirty = true end
[[- if $.Gives]]
if p[[.N]] and y[[.N]] > 0 and b[[.N]] >= f[[.N]] then
  a[[.N]], dirty = a[[.N]] + y[[.N]], true
  if a[[.N]] > B[[.N]] then a[[.N]] = B[[.N]] end
end
[[- end]]
local v[[.N]] = a[[.N]]
if b[[.N]] < now then v[[.N]] = v[[.N]] + (now - b[[.N]]) * R[[.N]] end
if v[[.N]] > B[[.N]] then v[[.N]] = B[[.N]] end
[[- if not .Shadow]]
if v[[.N]] < m[[.N]] then ok = false end
[[- end]]
[[- else if .Window]]
if b[[.N]] > now then b[[.N]] = w[[.N]] dirty = true end
local c[[.N]] = a[[.N]]
if b[[.N]] < w[[.N]] then c[[.N]] = 0 end
[[- if $.Gives]]
if p[[.N]] and y[[.N]] > 0 and f[[.N]] - f[[.N]] % L[[.N]] == w[[.N]] then
  c[[.N]] = c[[.N]] - y[[.N]]
  if c[[.N]] < 0 then c[[.N]] = 0 end
  a[[.N]], b[[.N]], dirty = c[[.N]], w[[.N]], true
end
[[- end]]
local v[[.N]] = C[[.N]] - c[[.N]]
[[- if not .Shadow]]
if v[[.N]] < m[[.N]] and m[[.N]] > 0 then ok = false end
[[- end]]
[[- else]]
local c[[.N]], n[[.N]], d[[.N]], h[[.N]], o[[.N]] = 0, 0, 0, {}, false
do
  local z = call('ZRANGE', KEYS[ [[- .Key]]], 0, -1, 'WITHSCORES')
  for i = 1, #z, 2 do
    local at, k = tonumber(z[i + 1]), unpack('<I4', z[i], 9)
    if at > now then at = now o[[.N]] = true end
    [[- if $.Gives]]
    if y[[.N]] > 0 and sub(z[i], 1, 8) == x[[.N]] then h[[.N]].gone = z[i] at = now - L[[.N]] end
    [[- end]]
    if at + L[[.N]] > now then
      h[[.N]][#h[[.N]] + 1] = at h[[.N]][#h[[.N]] + 1] = k
      c[[.N]], n[[.N]] = c[[.N]] + k, at
    end
  end
  h[[.N]].all = z
end
local v[[.N]] = C[[.N]] - c[[.N]]
if v[[.N]] < m[[.N]] and m[[.N]] > 0 then
  [[- if not .Shadow]]
  ok = false
  [[- end]]
  local room = v[[.N]]
  for i = 1, #h[[.N]], 2 do
    room = room + h[[.N]][i + 1]
    if room >= m[[.N]] then d[[.N]] = h[[.N]][i] + L[[.N]] break end
  end
end
[[- end]]
[[- end]]
local [[range $i, $e := .Entries]][[if $i]], [[end]]g[[$e.N]][[end]] = [[range $i, $e := .Entries]][[if $i]], [[end]]0[[end]]
if ok then
[[- range .Entries]]
[[- if .Bucket]]
  g[[.N]] = q[[.N]]
  if g[[.N]] > v[[.N]] then g[[.N]] = v[[.N]] - v[[.N]] % 1 end
[[- else if and .Log (not .Shadow)]]
  g[[.N]] = m[[.N]]
[[- else]]
  g[[.N]] = q[[.N]]
  if g[[.N]] > v[[.N]] then g[[.N]] = v[[.N]] end
  if g[[.N]] < 0 then g[[.N]] = 0 end
[[- end]]
[[- if .Shadow]]
  if v[[.N]] < m[[.N]] then g[[.N]] = 0 end
[[- end]]
[[- if .Bucket]]
  if g[[.N]] > 0 then a[[.N]], b[[.N]], dirty = v[[.N]] - g[[.N]], now, true end
[[- else if .Window]]
  if g[[.N]] > 0 then a[[.N]], b[[.N]], dirty = c[[.N]] + g[[.N]], w[[.N]], true end
[[- end]]
[[- end]]
end
[[- if .Record]]
[[- range .InRecord]]
if p[[.N]] or g[[.N]] > 0 then
  [[- if .Bucket]]
  local e = b[[.N]] + (B[[.N]] - a[[.N]]) / R[[.N]]
  [[- else]]
  local e = b[[.N]] + L[[.N]]
  [[- end]]
  if e > far then far = e end
end
[[- end]]
if far > [[.Farthest]] then far = [[.Farthest]] end
if dirty or rec and far > exp then
  local out = rest
  local keep = far + [[.Grace]] / 2 < exp
  if not keep then
    exp = far + [[.Grace]]
    exp = exp - exp % 1000000 + 1000000
  end
  if [[range $i, $e := .InRecord]][[if $i]] and [[end]](p[[$e.N]] or g[[$e.N]] > 0)[[end]] then
    out = pack('<I4[[range .InRecord]]I4dd[[end]]', exp / 1000000[[range .InRecord]], t[[.N]], a[[.N]], b[[.N]][[end]]) .. rest
  else
    [[- range .InRecord]]
    if p[[.N]] or g[[.N]] > 0 then out = pack('<I4dd', t[[.N]], a[[.N]], b[[.N]]) .. out end
    [[- end]]
    out = pack('<I4', exp / 1000000) .. out
  end
  if keep then
    call('SET', KEYS[1], out, 'KEEPTTL')
  else
    local ttl = (exp - now) / 1000
    if ttl > [[.Longest]] then ttl = [[.Longest]] end
    call('SET', KEYS[1], out, 'PX', ttl - ttl % 1 + 1)
  end
end
[[- end]]
[[- range .Entries]][[if .Log]]
if g[[.N]] > 0 or o[[.N]][[if $.Gives]] or h[[.N]].gone[[end]] then
  local key, z = KEYS[ [[- .Key]]], h[[.N]].all
  [[- if $.Gives]]
  if h[[.N]].gone then call('ZREM', key, h[[.N]].gone) end
  [[- end]]
  for i = 1, #z, 2 do
    if tonumber(z[i + 1]) > now and z[i] ~= h[[.N]].gone then call('ZADD', key, 'XX', now, z[i]) end
  end
  if g[[.N]] > 0 then
    call('ZREMRANGEBYSCORE', key, '-inf', now - L[[.N]])
    call('ZADD', key, now, x[[.N]] .. pack('<I4', g[[.N]]))
    c[[.N]], n[[.N]] = c[[.N]] + g[[.N]], now
    local ttl = L[[.N]] / 1000
    call('PEXPIRE', key, ttl - ttl % 1 + [[$.Grace]] / 1000)
  end
end
if g[[.N]] == 0 and n[[.N]] > 0 then
  local ttl = (n[[.N]] + L[[.N]] - now) / 1000
  if call('PTTL', KEYS[ [[- .Key]]]) < ttl then call('PEXPIRE', KEYS[ [[- .Key]]], ttl - ttl % 1 + [[$.Grace]] / 1000) end
end
[[- end]][[end]]
return pack('<dd[[range .Entries]][[if .Log]]dddd[[else]]ddd[[end]][[end]]', now, ok and 1 or 0[[range .Entries]], g[[.N]][[if .Log]], c[[.N]], d[[.N]], n[[.N]][[else]], a[[.N]], b[[.N]][[end]][[end]])
