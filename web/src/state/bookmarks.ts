// SPDX-License-Identifier: Apache-2.0
// Places that somebody gave a name. A bookmark is a link within a link: the address after `#` of that place, without bookmarks.
export interface Bookmark {
	name: string;
	note: string;
	place: string;
}

export const MOST_BOOKMARKS = 50;
export const NAME_LENGTH = 80;
export const NOTE_LENGTH = 500;
const PLACE_LENGTH = 2000;
const FIELD = "\x1f"; // as ASCII has it: between units, and between records
const RECORD = "\x1e";

const plain = (text: string, most: number) => text.replace(/[\x1e\x1f]/g, " ").slice(0, most);

export function writeBookmarks(list: readonly Bookmark[]): string {
	return list.map((b) => [plain(b.name, NAME_LENGTH), plain(b.note, NOTE_LENGTH), b.place].join(FIELD)).join(RECORD);
}

export function readBookmarks(text: string): Bookmark[] {
	const list: Bookmark[] = [];
	for (const record of text ? text.split(RECORD) : []) {
		const [name, note, place] = record.split(FIELD);
		if (place === undefined || place.length > PLACE_LENGTH || list.length === MOST_BOOKMARKS) continue;
		list.push({ name: name.slice(0, NAME_LENGTH), note: note.slice(0, NOTE_LENGTH), place });
	}
	return list;
}
