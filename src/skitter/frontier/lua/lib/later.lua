--[[
later: when the job began to visit pages again. An item of a later moment whose row was not there
before is new to its reader: docs/adr/0081-changes.md. The server's time, as in ids of a stream.
]]
--@include clock counters
local function note_again()
  if read_counter('again_since') == 0 then count('again_since', server_ms()) end
end
