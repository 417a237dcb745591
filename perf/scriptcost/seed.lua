-- The check as the design document that the project comes from shows it, to be measured beside ours.
-- KEYS: the request's buckets, all tagged {acct} so they share one slot
-- ARGV: want, pods, then rate (tokens/s), burst and cost for each key in order
local want, pods = tonumber(ARGV[1]), tonumber(ARGV[2])
local t = redis.call('TIME')              -- the store's clock, never a pod's
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local tok, grant, retry = {}, want, 0
for i, key in ipairs(KEYS) do
  local rate  = tonumber(ARGV[3 * i])     -- tokens/s = milli-tokens per ms
  local burst = tonumber(ARGV[3 * i + 1]) * 1000
  local cost  = tonumber(ARGV[3 * i + 2]) -- tokens one request spends here
  local s = redis.call('HMGET', key, 'tokens_milli', 'ts_ms')
  local v = (tonumber(s[1]) or burst) + (now - (tonumber(s[2]) or now)) * rate
  tok[i] = math.min(burst, v)
  local whole = math.floor(tok[i] / 1000)
  if whole < cost then                    -- too few tokens here: deny all
    grant = 0
    retry = math.max(retry, math.ceil((cost * 1000 - tok[i]) / rate))
  else                                    -- lease: at most half of what is left
    grant = math.min(grant, math.max(1, math.floor(whole / (2 * pods * cost))))
  end
end
for i, key in ipairs(KEYS) do
  local rate  = tonumber(ARGV[3 * i])
  local burst = tonumber(ARGV[3 * i + 1]) * 1000
  local cost  = tonumber(ARGV[3 * i + 2])
  redis.call('HSET', key, 'tokens_milli', tok[i] - grant * cost * 1000, 'ts_ms', now)
  redis.call('PEXPIRE', key, math.ceil(burst / rate) * 2)
end
return { grant, retry }                   -- grant (requests) 0 means deny
