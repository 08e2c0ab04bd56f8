"""Write samples.jsonl from the table below, which was written by hand. Run: python generate.py"""

import json
from pathlib import Path

SYSTEM = "Answer with the name of the city. One short sentence at most."

# Country, with its article where it takes one: the capital, and other usual spellings after a slash.
CAPITALS = {
    "africa": """
        Algeria: Algiers | Angola: Luanda | Botswana: Gaborone | Cameroon: Yaoundé/Yaounde | Chad: N'Djamena/N’Djamena/Ndjamena | Egypt: Cairo
        Eritrea: Asmara | Ethiopia: Addis Ababa | Gabon: Libreville | Ghana: Accra | Kenya: Nairobi | Liberia: Monrovia | Libya: Tripoli
        Madagascar: Antananarivo | Mali: Bamako | Mauritania: Nouakchott | Morocco: Rabat | Mozambique: Maputo | Namibia: Windhoek
        Niger: Niamey | Nigeria: Abuja | Rwanda: Kigali | Senegal: Dakar | Sierra Leone: Freetown | Somalia: Mogadishu | Sudan: Khartoum
        Tanzania: Dodoma | Togo: Lomé/Lome | Uganda: Kampala | Zambia: Lusaka | Zimbabwe: Harare""",
    "americas": """
        Argentina: Buenos Aires | the Bahamas: Nassau | Barbados: Bridgetown | Brazil: Brasília/Brasilia | Canada: Ottawa
        Chile: Santiago | Colombia: Bogotá/Bogota | Costa Rica: San José/San Jose | Cuba: Havana | the Dominican Republic: Santo Domingo
        Ecuador: Quito | Guyana: Georgetown | Haiti: Port-au-Prince | Honduras: Tegucigalpa | Jamaica: Kingston | Mexico: Mexico City
        Nicaragua: Managua | Paraguay: Asunción/Asuncion | Peru: Lima | Suriname: Paramaribo | the United States: Washington
        Uruguay: Montevideo | Venezuela: Caracas""",
    "asia": """
        Afghanistan: Kabul | Armenia: Yerevan | Azerbaijan: Baku | Bahrain: Manama | Bangladesh: Dhaka/Dacca | Bhutan: Thimphu
        Cambodia: Phnom Penh | China: Beijing/Peking | Georgia, the country in the Caucasus: Tbilisi | India: New Delhi | Iran: Tehran/Teheran
        Iraq: Baghdad | Japan: Tokyo | Jordan: Amman | Kazakhstan: Astana | Kyrgyzstan: Bishkek | Laos: Vientiane | Lebanon: Beirut
        Malaysia: Kuala Lumpur | Mongolia: Ulaanbaatar/Ulan Bator | Nepal: Kathmandu/Katmandu | North Korea: Pyongyang | Oman: Muscat
        Pakistan: Islamabad | the Philippines: Manila | Qatar: Doha | Saudi Arabia: Riyadh | South Korea: Seoul | Syria: Damascus
        Tajikistan: Dushanbe | Thailand: Bangkok | Turkey: Ankara | Turkmenistan: Ashgabat | the United Arab Emirates: Abu Dhabi
        Uzbekistan: Tashkent | Vietnam: Hanoi""",
    "europe": """
        Albania: Tirana | Austria: Vienna | Belarus: Minsk | Belgium: Brussels | Bulgaria: Sofia | Croatia: Zagreb | Denmark: Copenhagen
        Estonia: Tallinn | Finland: Helsinki | France: Paris | Germany: Berlin | Greece: Athens | Hungary: Budapest
        Iceland: Reykjavik/Reykjavík | Ireland: Dublin | Italy: Rome | Latvia: Riga | Lithuania: Vilnius | Malta: Valletta
        Moldova: Chisinau/Chișinău/Chişinău | Norway: Oslo | Poland: Warsaw | Portugal: Lisbon | Romania: Bucharest | Serbia: Belgrade | Slovakia: Bratislava
        Slovenia: Ljubljana | Spain: Madrid | Sweden: Stockholm | Ukraine: Kyiv/Kiev""",
}


def rows() -> list[dict[str, object]]:
    made: list[dict[str, object]] = []
    for continent, table in CAPITALS.items():
        for pair in table.replace("\n", " | ").split(" | "):
            if not pair.strip():
                continue
            country, capitals = pair.strip().split(": ")
            messages = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": f"What is the capital of {country}?"}]
            made.append({"input": messages, "ideal": capitals.split("/"), "category": continent})
    return made


if __name__ == "__main__":
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows())
    Path(__file__).with_name("samples.jsonl").write_bytes(text.encode("utf-8"))
